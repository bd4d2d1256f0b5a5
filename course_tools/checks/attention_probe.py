"""Find out whether a model attends: replace the weights of its attention by equal ones, and see whether its results change.

Whatever form attention is written in, nonnegative weights that sum to 1 over the keys multiply the values. Such factors of
products are recognised while the model runs. A recurrence is recognised by its length: in whatever form it is written, a chain
of nonlinear operations, each computed from the result of the one before, grows by at least one with each step. This module
contains no expected results: it also runs inside the sandbox.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.backends import mha
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_aten = torch.ops.aten
_PRODUCTS = (_aten.bmm.default, _aten.mul.Tensor, _aten.mm.default)
_EMBEDS = ("mm", "addmm", "bmm", "convolution")
_EXPONENTIALS = ("exp", "exp2", "_softmax", "_safe_softmax", "_sparse_softmax")
_MOST_KEYS = 64
"""Most keys of a product of two plain matrices, as for one example; a larger one may compare with all training examples."""
_RECURRENT_LAYER = _aten.mkldnn_rnn_layer.default
"""torch's LSTM on a CPU: one operation for all steps; its first argument has time on the first axis."""
_NONLINEAR = {
    "sigmoid",
    "tanh",
    "relu",
    "gelu",
    "silu",
    "elu",
    "leaky_relu",
    "hardtanh",
    "hardsigmoid",
    "softplus",
    "mish",
    "selu",
    "native_layer_norm",
}
"""Operations of which a state is computed from the state before. Sums, products and softmaxes in a loop are no recurrence."""


class Probe(NamedTuple):
    """What one call of a model showed.

    `averaged` is its result with equal weights in place of those that depend on the example, and `values` (B, T_k, d) are what
    the first of these weights multiplied; it is empty if there are none. `counts` are the numbers of operations, of weights
    that depend on the example and sum to 1 over the keys, and of those that do so over the queries instead. `by_position` is
    the number of causal weights whose ratios differ between two queries that come equally far after their keys, (): on a text
    of one repeated token, scores depend on more than the distance. `depth` is the length of the longest chain of nonlinear
    operations that leads to the result, (). `gates` are the numbers to which sigmoids and tanhs were applied, (2,).
    `exponentials` is the number of entries of which exponentials were taken, also by a softmax, (). `embedded` is what the
    first product or convolution gave for each example, (B, n), its numbers in their order; empty if it has no rows of each.
    `encoded` is its result with equal weights in place of those alone that do not depend on the last of several inputs, such as
    those of an encoder, which does not read the target; empty with one input, or with one that has no axis of the examples.
    """

    averaged: Tensor
    values: Tensor
    counts: Tensor
    by_position: Tensor
    depth: Tensor
    gates: Tensor
    exponentials: Tensor
    embedded: Tensor
    encoded: Tensor


def probe(model: Callable[..., object], inputs: tuple[Tensor, ...]) -> Probe:
    """Call a model on a batch; its first input has the axis of the examples first."""
    mode = _EqualWeights(len(inputs[0]))
    output = _called(model, inputs, mode)
    encoded = None
    if len(inputs) > 1 and len({len(part) for part in inputs}) == 1:  # not of a graph, whose edges have no axis of examples
        *others, last = (part.repeat_interleave(2, 0) for part in inputs)
        last[1::2] = inputs[-1].roll(1, 0)
        encoded = _called(model, (*others, last), _EqualWeights(len(last), besides=last.shape[1]))
    counts = torch.tensor([mode.n_operations, mode.n_over_keys, mode.n_over_queries])
    averaged = output.detach().cpu().clone() if isinstance(output, Tensor) else torch.zeros(0)
    encoded = encoded[::2].detach().cpu().clone() if isinstance(encoded, Tensor) else torch.zeros(0)
    values = torch.zeros(0) if mode.values is None else mode.values
    depth = mode.chains.of(output) if isinstance(output, Tensor) else 0
    numbers = map(torch.tensor, (mode.n_by_position, depth, mode.gates, mode.n_exponentials))
    return Probe(averaged, values, counts, *numbers, torch.zeros(0) if mode.embedded is None else mode.embedded, encoded)


def _called(model: Callable[..., object], inputs: tuple[Tensor, ...], mode: "_EqualWeights") -> object:
    before = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), mode:
            return model(*(part.clone() for part in inputs))
    finally:
        mha.set_fastpath_enabled(before)


class _Chains:
    """For each tensor, the length of the longest chain of nonlinear operations that leads to it.

    A part of a tensor that is written in place keeps its own length, and only there: a chain may be longer than what is found,
    and never shorter.
    """

    def __init__(self) -> None:
        self._whole: dict[int, int] = {}
        self._parts: dict[int, dict[tuple[object, ...], int]] = {}

    def of(self, tensor: Tensor) -> int:
        """Return the length for a tensor; 0 for one that was there before."""
        at = _storage(tensor)
        return self._parts.get(at, {}).get(_place(tensor), self._whole.get(at, 0)) if at else 0

    def note(self, operation: object, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Note an operation that was run."""
        kernel = operation._overloadpacket.__name__.removesuffix("_")
        n_steps = len(inputs[0]) if operation is _RECURRENT_LAYER else int(kernel in _NONLINEAR)
        if operation.is_view:
            return
        length = max(map(self.of, inputs), default=0) + n_steps
        in_place = operation._schema.is_mutable
        for tensor in outputs:
            at = _storage(tensor)
            if in_place and tensor.numel() < tensor.untyped_storage().nbytes() // tensor.itemsize:
                self._parts.setdefault(at, {})[_place(tensor)] = length
            else:
                self._parts.pop(at, None)
                self._whole[at] = length


def _storage(tensor: Tensor) -> int:
    """The address of a tensor's numbers; 0 if it has none."""
    return tensor.untyped_storage().data_ptr()


def _place(tensor: Tensor) -> tuple[object, ...]:
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


class _EqualWeights(TorchDispatchMode):
    """Replaces attention weights by equal ones over the keys that have a weight, and counts operations.

    With `besides`, only weights that are the same for both examples of each pair are replaced. The two differ in the last
    input, which has that many positions.
    """

    def __init__(self, n_examples: int, besides: int = 0) -> None:
        super().__init__()
        self.n_examples, self.besides = n_examples, besides
        self.n_operations = self.n_over_keys = self.n_over_queries = self.n_by_position = self.n_exponentials = 0
        self.values: Tensor | None = None
        self.embedded: Tensor | None = None
        self.gates = [0, 0]
        self.chains = _Chains()

    def __torch_dispatch__(
        self, operation: object, types: object, arguments: tuple = (), options: dict | None = None
    ) -> object:
        """Run an operation, with other weights if it is a product with attention weights."""
        self.n_operations += len(arguments[0]) if operation is _RECURRENT_LAYER else 1
        given = _tensors((arguments, options or {}))  # not the equal weights: a freed tensor may have had their address
        if operation in _PRODUCTS and all(isinstance(x, Tensor) and x.is_floating_point() for x in arguments[:2]):
            arguments = self._with_equal_weights(operation, *arguments)
        result = operation(*arguments, **(options or {}))
        self.chains.note(operation, given, _tensors(result))
        self._note_gates(operation, result)
        if self.embedded is None and operation._overloadpacket.__name__ in _EMBEDS:
            self.embedded = self._by_example(result)
        return result

    def _by_example(self, result: Tensor) -> Tensor:
        """The numbers of each example, (B, n)."""
        rows = result[0] if len(result) == 1 < self.n_examples else result
        return (rows.reshape(self.n_examples, -1) if len(rows) % self.n_examples == 0 else rows[:0]).cpu().clone()

    def _note_gates(self, operation: object, result: object) -> None:
        """Count exponentials, sigmoids (`exp` too) and tanhs; torch's LSTM takes three and two of each of its units."""
        kernel = operation._overloadpacket.__name__.removesuffix("_")
        if kernel in _EXPONENTIALS or operation is _aten.pow.Scalar:
            self.n_exponentials += result.numel()
        for i, names in enumerate((("sigmoid", "exp", "hardsigmoid"), ("tanh",))):
            if kernel in names:
                self.gates[i] += result.numel()
            elif operation is _RECURRENT_LAYER:
                self.gates[i] += (3, 2)[i] * result[0].numel()

    def _with_equal_weights(self, operation: object, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        if operation is _PRODUCTS[2]:  # of one example, as in a loop over the batch
            if len(right) > _MOST_KEYS or (left < 0).any() or not _sums_to_one(left, -1):
                return left, right
            if self.besides and (len(left) != len(right) or len(left) == self.besides):
                return left, right
            self.n_over_keys += 1
            return _equal(left, -1), right
        is_matrix_product = operation is _PRODUCTS[0]
        for weights, values, keys in ((left, right, -1), (right, left, -2)):
            broadcasts = weights.dim() == values.dim() > 1 and any(
                n == 1 < m for n, m in zip(weights.shape, values.shape, strict=True)
            )
            if not (is_matrix_product or broadcasts) or not self._depends_on_the_example(weights):
                continue
            if self.besides and not self._is_same_in_pairs(weights):
                continue
            axes = (keys,) if is_matrix_product else tuple(range(1, weights.dim()))
            axis = next((axis for axis in axes if _sums_to_one(weights, axis)), None)
            if axis is None:
                self.n_over_queries += is_matrix_product and _sums_to_one(weights, -3 - keys)
                continue
            self.n_over_keys += 1
            if self.values is None:
                self.values = (
                    self._by_key(values if keys == -1 else values.mT, -2) if is_matrix_product else self._by_key(values, axis)
                )
            self.n_by_position += is_matrix_product and _by_position(weights if keys == -1 else weights.mT)
            equal = _equal(weights, axis)
            return (equal, right) if weights is left else (left, equal)
        return left, right

    def _by_key(self, values: Tensor, axis: int) -> Tensor:
        """Bring values to (B, T_k, d); those of several heads stand side by side."""
        values = values.movedim(axis, 1)
        heads = (
            values.reshape(self.n_examples, -1, *values.shape[1:]) if len(values) % self.n_examples == 0 else values[:0, None]
        )
        return heads.transpose(1, 2).flatten(2).cpu().clone()

    def _depends_on_the_example(self, weights: Tensor) -> bool:
        if weights.dim() < 2 or not weights.numel() or len(weights) % self.n_examples or (weights < 0).any():
            return False
        rows = weights.reshape(self.n_examples, -1)
        return bool((rows - rows[:1]).abs().max() > 1e-6)

    def _is_same_in_pairs(self, weights: Tensor) -> bool:
        """Whether weights are the same for both examples of each pair, whether the heads come after the examples or before."""
        n, rest = self.n_examples // 2, weights.shape[1:]
        after, before = weights.reshape(n, 2, -1), weights.reshape(-1, n, 2, *rest).transpose(1, 2).flatten(3)
        return any(bool((one - other).abs().max() < 1e-5) for one, other in (after.unbind(1), before.unbind(1)))


def _tensors(value: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _equal(weights: Tensor, axis: int) -> Tensor:
    """Equal weights along an axis, over the entries that are not 0."""
    allowed = (weights > 0).to(weights)
    return allowed / allowed.sum(axis, keepdim=True).clamp(min=1)


def _by_position(weights: Tensor) -> bool:
    """Whether weights (n, r · T, T) of T causal queries, r of them at each position, depend on more than the distance.

    The weights of a query are divided by that of its own position, and compared with those of the last query.
    """
    n, n_rows, T = weights.shape
    order = (weights > 0).sum(-1).sort(dim=-1, stable=True)
    r = n_rows // T
    if n_rows % T or not (order.values == torch.arange(1, T + 1, device=weights.device).repeat_interleave(r)).all():
        return False
    rows = weights.gather(1, order.indices[..., None].expand_as(weights)).view(n, T, r, T).transpose(1, 2)
    position = torch.arange(T, device=weights.device)
    distance = position[:, None] - position
    ratios = rows.gather(-1, distance.clamp(min=0).expand_as(rows))
    ratios = ratios / ratios[..., :1]
    apart = (ratios - ratios[..., -1:, :]).abs() > 1e-2 * (1 + ratios[..., -1:, :])
    return bool((apart & (distance >= 0)).any())


def _sums_to_one(weights: Tensor, axis: int) -> bool:
    """Whether all sums along an axis of at least two entries are 1, or 0 where a mask excludes every key."""
    if weights.shape[axis] < 2:
        return False
    sums = weights.sum(axis)
    return bool((((sums - 1).abs() < 1e-3) | (sums == 0)).all()) and bool((sums > 0.5).any())
