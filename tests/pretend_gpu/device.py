"""A pretend accelerator: a device named "pretend" with the CPU's kernels and CUDA's refusal to mix devices.

`register()` compiles device.cpp on first use, into a cache folder, and adds the device to this process. It shows tensors made
or left on the wrong device, `.numpy()` without `.cpu()`, and generators of the wrong device. It cannot show speed, memory, or
what CUDA's own kernels compute: docs/gpu.md. Torch has no fallback for convolutions and fused recurrent cells: they are here.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path

import torch
from filelock import FileLock
from torch import Tensor
from torch.utils import cpp_extension

NAME = "pretend"
SOURCE = Path(__file__).with_name("device.cpp")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attention-course" / "pretend_gpu"
_library: list[torch.library.Library] = []


def missing() -> str | None:
    """Describe what this machine lacks for the pretend accelerator; None if nothing is missing."""
    if sys.platform != "linux":
        return "the pretend accelerator is built on Linux alone"
    if shutil.which(_compiler()[0]) is None:
        return f"the pretend accelerator needs a C++ compiler: {_compiler()[0]} was not found"
    if not Path(cpp_extension.include_paths()[0]).joinpath("ATen", "ATen.h").exists():
        return "the pretend accelerator needs torch's C++ headers, which this installation lacks"
    return None


def build() -> Path:
    """Compile device.cpp, once for each version of the file, torch and the command; processes wait for each other.

    Raises:
        RuntimeError: the compiler failed; with its last lines.
    """
    command = [*_compiler(), "-shared", str(SOURCE), *_options(), "-o"]
    made_of = "\n".join((torch.__version__, sys.version, *command)).encode() + SOURCE.read_bytes()
    library = CACHE / f"{hashlib.sha256(made_of).hexdigest()[:16]}.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(library.with_suffix(".lock")):
        if not library.exists():
            partial = library.with_suffix(f".{os.getpid()}")
            done = subprocess.run([*command, str(partial)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"device.cpp does not compile:\n{done.stderr[-3000:]}")
            partial.replace(library)
    return library


def register() -> torch.device:
    """Add the device to this process, and make it the current `torch.accelerator`."""
    if not _library:
        torch.ops.load_library(str(build()))
        torch.utils.rename_privateuse1_backend(NAME)
        torch._register_device_module(NAME, _module())
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=False)
        _library.append(_composed_kernels())
        torch.Tensor.__deepcopy__ = torch.nn.Parameter.__deepcopy__ = _deepcopy
    return torch.device(NAME)


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX", "g++"))


def _options() -> list[str]:
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    headers = [f"-isystem{path}" for path in cpp_extension.include_paths()]
    libraries = [option for path in cpp_extension.library_paths() for option in (f"-L{path}", f"-Wl,-rpath,{path}")]
    return ["-fPIC", "-O0", "-std=c++20", "-w", abi, *headers, *libraries, "-lc10", "-ltorch_cpu", "-ltorch"]


def _module() -> types.ModuleType:
    """The functions of `torch.pretend`, as of `torch.cuda`."""
    module = types.ModuleType(f"torch.{NAME}")
    module.is_available = module.is_initialized = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module._is_in_bad_fork = lambda: False
    module.manual_seed = module.manual_seed_all = lambda seed: torch.ops.pretend_gpu.seed(seed % 2**63)
    module.get_rng_state = lambda device=NAME: torch.ops.pretend_gpu.rng_state()
    module.set_rng_state = lambda state, device=NAME: torch.ops.pretend_gpu.set_rng_state(state)
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.device = _Device
    return module


class _Device:
    """A context in which this device is the current one; there is only one."""

    def __init__(self, device: object) -> None:
        pass

    def __enter__(self) -> "_Device":
        return self

    def __exit__(self, *error: object) -> None:
        pass


_OTHERS = {kind: kind.__deepcopy__ for kind in (torch.Tensor, torch.nn.Parameter)}


def _deepcopy(self: Tensor, memo: dict[int, object]) -> Tensor:
    """Copy a tensor of this device; torch would copy its storage, for which there is no kernel here."""
    if self.device.type != NAME or id(self) in memo:
        return _OTHERS[torch.nn.Parameter if isinstance(self, torch.nn.Parameter) else torch.Tensor](self, memo)
    copied = self.detach().clone().requires_grad_(self.requires_grad)
    memo[id(self)] = torch.nn.Parameter(copied, self.requires_grad) if isinstance(self, torch.nn.Parameter) else copied
    return memo[id(self)]


def _composed_kernels() -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL", "PrivateUse1")
    library.impl("_thnn_fused_lstm_cell", _lstm_cell)
    library.impl("_thnn_fused_lstm_cell_backward_impl", _lstm_cell_backward)
    library.impl("_thnn_fused_gru_cell", _gru_cell)
    library.impl("_thnn_fused_gru_cell_backward", _gru_cell_backward)
    library.impl("convolution_overrideable", _convolution)
    library.impl("convolution_backward_overrideable", _convolution_backward)
    return library


def _lstm_cell(from_x, from_h, c, b_x=None, b_h=None):
    gates = from_x + from_h + (0.0 if b_x is None else b_x + b_h)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * c + i * g
    return o * new.tanh(), new, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(of_h, of_c, c, new, workspace, has_bias):
    i, f, g, o = workspace.chunk(4, 1)
    read = new.tanh()
    of_h = torch.zeros_like(new) if of_h is None else of_h
    of_new = of_h * o * (1 - read**2) + (0.0 if of_c is None else of_c)
    parts = [of_new * g * i * (1 - i), of_new * c * f * (1 - f), of_new * i * (1 - g**2), of_h * read * o * (1 - o)]
    of_gates = torch.cat(parts, 1)
    return of_gates, of_new * f, _of_bias(of_gates, has_bias)


def _gru_cell(from_x, from_h, h, b_x=None, b_h=None):
    if b_x is not None:
        from_x, from_h = from_x + b_x, from_h + b_h
    (x_r, x_z, x_n), (h_r, h_z, h_n) = from_x.chunk(3, 1), from_h.chunk(3, 1)
    r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
    n = (x_n + r * h_n).tanh()
    return n + z * (h - n), torch.cat([r, z, n, h, h_n], 1)


def _gru_cell_backward(of_new, workspace, has_bias):
    r, z, n, h, h_n = workspace.chunk(5, 1)
    of_z = of_new * (h - n) * z * (1 - z)
    of_n = of_new * (1 - z) * (1 - n**2)
    of_r = of_n * h_n * r * (1 - r)
    of_x, of_h = torch.cat([of_r, of_z, of_n], 1), torch.cat([of_r, of_z, of_n * r], 1)
    return of_x, of_h, of_new * z, _of_bias(of_x, has_bias), _of_bias(of_h, has_bias)


def _of_bias(of_gates: Tensor, has_bias: bool) -> Tensor:
    return of_gates.sum(0) if has_bias else of_gates.new_empty(0)


def _convolution(x, weight, bias, *settings):
    for tensor in (weight, bias):
        if tensor is not None and tensor.device != x.device:
            raise RuntimeError(f"Input type ({x.device}) and weight type ({tensor.device}) should be the same")
    on_cpu = (None if tensor is None else tensor.cpu() for tensor in (x, weight, bias))
    return torch.ops.aten.convolution(*on_cpu, *settings).to(x.device)


def _convolution_backward(gradient, x, weight, *settings):
    *settings, wanted = settings
    on_cpu = (tensor.cpu() for tensor in (gradient, x, weight))
    found = torch.ops.aten.convolution_backward(*on_cpu, [weight.shape[0]], *settings, wanted)
    return tuple(None if tensor is None else tensor.to(x.device) for tensor in found)
