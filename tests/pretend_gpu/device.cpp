// A pretend accelerator for tests: memory with a device name of its own, the CPU's kernels, and CUDA's refusal to mix devices.
//
// It is torch's PrivateUse1 device. Every operator without a kernel here runs by at::native::cpu_fallback, after a check that all
// its tensors and its generator are of this device. https://docs.pytorch.org/tutorials/advanced/privateuseone.html

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_sparse_csr_tensor_unsafe.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/sparse_sampled_addmm.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

namespace {

using at::Tensor;
using Sizes = at::IntArrayRef;
constexpr auto PRETEND = c10::DeviceType::PrivateUse1;
const c10::Device HERE(PRETEND, 0);

bool is_here(const Tensor& tensor) { return tensor.defined() && tensor.device().type() == PRETEND; }

// ---- memory, streams, random numbers

void release(void* pointer) { c10::free_cpu(pointer); }

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = bytes ? c10::alloc_cpu(bytes) : nullptr;
    return {pointer, pointer, &release, HERE};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

Allocator allocator;
REGISTER_ALLOCATOR(PRETEND, &allocator);

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return PRETEND; }
  c10::Device exchangeDevice(c10::Device) const override { return HERE; }
  c10::Device getDevice() const override { return HERE; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, HERE); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Generator : at::CPUGeneratorImpl {
  Generator() {
    device_ = HERE;
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

at::Generator& default_generator() {
  static at::Generator generator = at::make_generator<Generator>();
  return generator;
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::make_generator<Generator>(); }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto fresh = allocator.allocate(bytes);
    if (storage.nbytes() && bytes) std::memcpy(fresh.get(), storage.data(), std::min(storage.nbytes(), bytes));
    storage.unsafeGetStorageImpl()->set_data_ptr(std::move(fresh));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

Hooks hooks;
const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

// ---- tensors: making, copying, viewing

Tensor on_cpu(const Tensor& tensor) {  // the same memory under the CPU's name
  if (!is_here(tensor)) return tensor;
  auto pointer = c10::DataPtr(
      tensor.storage().mutable_data(), new Tensor(tensor), [](void* owner) { delete static_cast<Tensor*>(owner); }, at::kCPU);
  c10::Storage storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(), std::move(pointer), nullptr, false);
  auto named = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  named.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.is_conj()) named._set_conj(true);
  if (tensor.is_neg()) named._set_neg(true);
  return named;
}

using Dtype = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;
using Where = std::optional<at::Device>;
using Pinned = std::optional<bool>;
using Format = std::optional<at::MemoryFormat>;

Tensor empty(Sizes size, Dtype dtype, Layout, Where, Pinned, Format format) {
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_generic(size, &allocator, keys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(Sizes size, Sizes stride, Dtype dtype, Layout, Where, Pinned) {
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(size, stride, &allocator, keys, c10::dtype_or_default(dtype));
}

const Tensor& resize_(const Tensor& self, Sizes size, Format) {
  const size_t bytes = (self.storage_offset() + c10::multiply_integers(size)) * self.itemsize();
  if (self.storage().nbytes() < bytes) hooks.resizePrivateUse1Bytes(self.storage(), bytes);
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}

Tensor copy_from(const Tensor& self, const Tensor& to, bool) {
  on_cpu(to).copy_(on_cpu(self));
  return to;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& to) {
  if (to.sizes() != self.sizes()) resize_(to, self.sizes(), std::nullopt);
  return copy_from(self, to, false);
}

at::Scalar item(const Tensor& self) { return on_cpu(self).item(); }

Tensor view(const Tensor& self, Sizes size) { return at::native::view(self, size); }

Tensor& set_storage(Tensor& self, at::Storage storage, int64_t offset, Sizes size, Sizes stride) {
  auto* tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(std::move(storage));
  tensor->set_sizes_and_strides(size, stride, offset);
  return self;
}

// ---- sparse matrices in compressed rows: the three operations of attention over the edges of a graph

at::TensorOptions csr_options(const c10::Device& where, const Tensor& csr) {
  return at::TensorOptions().dtype(csr.scalar_type()).layout(at::kSparseCsr).device(where);
}

Tensor csr_on_cpu(const Tensor& csr) {
  return at::_sparse_csr_tensor_unsafe(
      on_cpu(csr.crow_indices()), on_cpu(csr.col_indices()), on_cpu(csr.values()), csr.sizes(), csr_options(at::kCPU, csr));
}

void require_all_here(const char* operation, std::initializer_list<Tensor> tensors) {
  for (const auto& tensor : tensors)
    TORCH_CHECK(is_here(tensor), "Expected all tensors to be on the same device, but found one on ", tensor.device(), " in ", operation);
}

Tensor csr_mm(const Tensor& csr, const Tensor& dense) {
  require_all_here("mm", {csr, dense});
  return at::mm(csr_on_cpu(csr), on_cpu(dense)).to(HERE);
}

Tensor csr_sampled_addmm(
    const Tensor& csr, const Tensor& left, const Tensor& right, const at::Scalar& beta, const at::Scalar& alpha) {
  require_all_here("sparse_sampled_addmm", {csr, left, right});
  const auto sampled = at::sparse_sampled_addmm(csr_on_cpu(csr), on_cpu(left), on_cpu(right), beta, alpha);
  return at::_sparse_csr_tensor_unsafe(
      csr.crow_indices(), csr.col_indices(), sampled.values().to(HERE), csr.sizes(), csr_options(HERE, csr));
}

// ---- everything else: check the devices, then run on the CPU

bool takes_indices_of_the_cpu(const std::string& name) {  // as CUDA does, for a tensor of its own
  return name == "aten::index.Tensor" || name == "aten::index" || name.rfind("aten::index_put", 0) == 0 ||
      name.rfind("aten::_index_put", 0) == 0;
}

void fallback(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const auto& name = operation.schema().operator_name().name;
  const size_t n = operation.schema().arguments().size(), first = stack->size() - n;
  bool here = false;
  std::string elsewhere;
  const auto look = [&](const Tensor& tensor) {
    if (is_here(tensor)) here = true;
    else if (tensor.defined() && tensor.dim() > 0) elsewhere = c10::str("a tensor ", tensor.sizes(), " on ", tensor.device());
  };
  for (size_t i = first; i < first + n; ++i) {
    const auto& value = (*stack)[i];
    if (value.isTensor()) look(value.toTensor());
    else if (value.isTensorList()) for (const Tensor& tensor : value.toTensorVector()) look(tensor);
    else if (value.isOptionalTensorList()) for (const auto& tensor : value.toOptionalTensorVector()) if (tensor) look(*tensor);
  }
  const bool indexed = takes_indices_of_the_cpu(name) && (*stack)[first].isTensor() && is_here((*stack)[first].toTensor());
  const bool copied = name.find("copy") != std::string::npos || name.find("fused_adam") != std::string::npos;
  TORCH_CHECK(
      !here || elsewhere.empty() || indexed || copied,
      "Expected all tensors to be on the same device, but found ", elsewhere, " beside one on ", HERE, " in ", name);
  for (size_t i = first; i < first + n; ++i) {
    auto& value = (*stack)[i];
    if (!value.isGenerator()) continue;
    TORCH_CHECK(
        value.toGenerator().device().type() == PRETEND,
        "Expected a generator of device ", HERE, ", but found one of ", value.toGenerator().device(), " in ", name);
    auto copy = at::make_generator<at::CPUGeneratorImpl>();
    copy.set_state(value.toGenerator().get_state());
    auto mine = value.toGenerator();
    value = copy;
    at::native::cpu_fallback(operation, stack);
    mine.set_state(copy.get_state());
    return;
  }
  at::native::cpu_fallback(operation, stack);
}

void seed(int64_t number) {
  std::lock_guard<std::mutex> lock(default_generator().mutex());
  default_generator().set_current_seed(static_cast<uint64_t>(number));
}

at::Tensor rng_state() {
  std::lock_guard<std::mutex> lock(default_generator().mutex());
  return default_generator().get_state();
}

void set_rng_state(const at::Tensor& state) {
  std::lock_guard<std::mutex> lock(default_generator().mutex());
  default_generator().set_state(state);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("resize_", resize_);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("view", view);
  m.impl("unfold", at::native::unfold);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", item);
  m.impl("set_.source_Storage_storage_offset", set_storage);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("crow_indices", at::native::crow_indices_sparse_csr);
  m.impl("col_indices", at::native::col_indices_sparse_csr);
  m.impl("values", at::native::values_sparse_csr);
  m.impl("mm", csr_mm);
  m.impl("sparse_sampled_addmm", csr_sampled_addmm);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
}
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY(pretend_gpu, m) {
  m.def("seed(int number) -> ()", seed);
  m.def("rng_state() -> Tensor", rng_state);
  m.def("set_rng_state(Tensor state) -> ()", set_rng_state);
}
