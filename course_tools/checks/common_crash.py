"""Errors that beginners make in any exercise, such as `k.T` of a batch: what they are told, and how they are recognised.

A kind is given only where the evidence is exact: what torch says, or the operation that fails, the shapes of its operands and
the expression in the student's line. What is only likely is advice. This module also runs inside the sandbox: it requires only
torch.
"""

import ast
import difflib
import dis
import linecache
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.checks.failed_operation import RaisingCall


class CrashKind(NamedTuple):
    """The name of a severity, what a student reads, and a pattern of what torch says if that is evidence enough."""

    severity: Literal["IDEA", "DETAIL", "CASE"]
    text: str
    words: str = ""


KINDS = {
    "all axes": CrashKind(
        "DETAIL",
        "`x.T` turns *all* axes round, also those of the batch, and `x.t()` takes no more than two. To exchange the last two "
        "only, write `x.mT`.",
        r"^t\(\) expects a tensor with <= 2 dimensions",
    ),
    "not transposed": CrashKind(
        "DETAIL",
        "`A @ B` sums over the last axis of A and the last but one of B. Here their sizes differ, and they agree if you "
        "transpose one factor: `A @ B.mT`, as in `x @ W.mT` for weights stored as (out, in), or `A.mT @ B`.",
    ),
    "other factor": CrashKind(
        "DETAIL",
        "You transpose one factor of a product: the sizes agree if you transpose the other one instead. `A @ B` sums over the "
        "last axis of A and the last but one of B.",
    ),
    "classes": CrashKind(
        "DETAIL",
        "`F.cross_entropy` and `F.nll_loss` want the classes on axis 1, and yours are on the last axis: put all positions in "
        "one axis, `logits.flatten(0, -2)` and `targets.flatten()`.",
    ),
    "integers": CrashKind(
        "DETAIL",
        "The indices of classes, rows or entries must be integers, and yours are floating-point numbers: `.long()`.",
        r"expected target dtype to be Long|tensors used as indices must be long|int32/int64 for index|"
        r"argument #\d 'indices' to have one of",
    ),
    "not for integers": CrashKind(
        "DETAIL",
        "This function is defined for floating-point numbers only, and it is given integers or truth values: convert them by "
        "`.float()`.",
        r"not implemented for '(?:Long|Int|Bool)'|could not infer output dtype|a floating point or complex tensor as input",
    ),
    "outer": CrashKind(
        "DETAIL", "`torch.outer` takes two vectors only. With batch axes, write `a[..., :, None] * b[..., None, :]`."
    ),
    "truth": CrashKind(
        "DETAIL",
        "`if`, `while`, `and`, `or`, `not`, `in`, `min` and `max` of Python need one truth value, and a tensor of several "
        "entries, or of none, does not have one. For an answer of each entry take `torch.where`, `&`, `|`, `~`, "
        "`torch.minimum` or `clamp`; for one of all entries `.all()` or `.any()`.",
        "Boolean value of Tensor with (?:more than one|no) value",
    ),
    "chain": CrashKind(
        "DETAIL",
        "Python reads `a < b < c` as `a < b and b < c`, which asks for one truth value. And `&` and `|` bind more tightly than "
        "comparisons, so that `a < b & c < d` is such a chain too: write `(a < b) & (c < d)`.",
    ),
    "empty": CrashKind(
        "CASE", "`torch.cat`, `torch.stack` and the like need at least one tensor. An empty input needs a case of its own."
    ),
    "list of shapes": CrashKind(
        "DETAIL",
        "The tensors of the list have shapes that cannot be joined in one tensor: work on each by itself, and join or add up "
        "only the numbers that you take from them.",
    ),
    "cat lacks an axis": CrashKind(
        "DETAIL",
        "`torch.cat` joins tensors with the same number of axes, and one of yours lacks an axis: give it one of size 1, as in "
        "`x[..., None]` or `x[None]`.",
    ),
    "cat of numbers": CrashKind(
        "DETAIL",
        "`torch.cat` cannot join tensors without axes, such as sums or norms. `torch.stack` makes an axis for them; or give "
        "each one, by `x.reshape(1)`.",
        r"zero-dimensional tensor \(at position \d+\) cannot be concatenated",
    ),
    "cat does not broadcast": CrashKind(
        "DETAIL", "`torch.cat` does not broadcast: an axis of size 1 has to be expanded first, by `expand`."
    ),
    "cat axis": CrashKind(
        "DETAIL",
        "`torch.cat` joins along axis 0 unless it is told another one, and all other axes must agree. Yours differ in another "
        "axis: give it, as in `torch.cat([a, b], -1)`.",
    ),
    "None": CrashKind(
        "DETAIL",
        "An argument is None here, and it is used as it is. Treat None first: replace it by what it stands for, or leave it "
        "out.",
    ),
    "number": CrashKind(
        "DETAIL",
        "Functions of torch such as `torch.sqrt` take a tensor, and you give a plain number: write `math.sqrt(n)` or `n**0.5`, "
        "or make a tensor of it.",
        r"must be Tensor, not (?:int|float)$",
    ),
    "math": CrashKind(
        "DETAIL", "The functions of `math` take a single number, and you give a tensor: take those of torch, as `torch.sqrt`."
    ),
    "one entry": CrashKind(
        "DETAIL",
        "`int`, `float` and `.item()` take a tensor with a single entry, and yours has another number of them: a batch, for "
        "example, has several, and an empty input none.",
    ),
    "no attribute of a number": CrashKind(
        "DETAIL", "You use a plain number as if it were a tensor. Convert it first, by `torch.as_tensor`."
    ),
    "no attribute of a list": CrashKind(
        "DETAIL", "A plain list or tuple has no attribute of this name. Unpack it, or go through its entries one by one."
    ),
    "lacks an axis": CrashKind(
        "DETAIL",
        "Two tensors are combined entry by entry, and one has an axis less than the other. Broadcasting aligns the *last* "
        "axes: give it an axis of size 1 where one is missing, as in `x[..., None]` or `x[..., None, :]`, or keep it in a "
        "reduction by `keepdim=True`.",
    ),
    "column": CrashKind(
        "DETAIL",
        "Two vectors of different lengths are combined entry by entry. To combine each entry of one with each of the other, "
        "make a column of one: `a[:, None]`.",
    ),
    "axes": CrashKind(
        "DETAIL",
        "You unpack a shape into as many names as it does not have here. Where any number of axes may come first, count from "
        "the end: `x.shape[-1]`, or `*batch, T, d = x.shape`.",
    ),
    "reshape": CrashKind(
        "DETAIL",
        "`reshape`, `view` and `unflatten` keep the number of entries: the sizes that you give do not multiply to it. Print "
        "the shape before that line.",
        "is invalid for input of size|don't multiply up to the size",
    ),
    "invented": CrashKind(
        "IDEA", "What you call does not exist in torch: the name is misspelt, invented, or one of another library."
    ),
    "elsewhere": CrashKind("DETAIL", "This name exists in torch, but not in the place where you look for it."),
    "package": CrashKind(
        "IDEA", "What you import is not installed, and the course does without it: torch alone is enough for this exercise."
    ),
    "several results": CrashKind(
        "DETAIL",
        "The function that you call returns several results together, such as `context` and `weights`, and you use them as one "
        "tensor. Take the one that you need, as in `attend(…).context`, `x.max(-1).values` or `states, _ = lstm(x)`.",
    ),
    "minus of bool": CrashKind(
        "DETAIL",
        "`-` is not defined for tensors of True and False. Write `~a` for not a, and `a & ~b` for a without b; or convert them "
        "to numbers, by `.float()`.",
        "the `-` operator, ",
    ),
    "mask of numbers": CrashKind(
        "DETAIL",
        "Truth values are wanted, and yours are numbers: make a mask by a comparison, as in `mask > 0`. `&` and `|` bind more "
        "tightly than comparisons: `(a > 0) & (b > 0)`.",
        r"\(operator.invert\) is only implemented|only supports boolean masks|condition to be a boolean tensor|"
        r"\"bitwise_\w+\" not implemented for '(?:Float|Double)'",
    ),
    "index lacks axes": CrashKind(
        "DETAIL",
        "`gather` and `scatter` need an index with as many axes as the tensor. To take one entry of each row, write "
        "`x.gather(-1, index[..., None])[..., 0]`.",
        "Index tensor must have the same number of dimensions as",
    ),
    "dtypes": CrashKind(
        "DETAIL",
        "Two tensors of different dtypes meet, such as integers (from `F.one_hot` or `arange`) and floating-point numbers. "
        "Convert one: `a.to(b.dtype)`.",
        r"(?:to|must) have (?:the )?same (?:scalar )?d?type|does not match weight dtype|"
        r"expected scalar type \w+ but found|Expected self.dtype to be equal",
    ),
    "in place": CrashKind(
        "CASE",
        "You write into a tensor whose gradient is wanted, as an argument (`+=`, `x[...] = …`, a method that ends in `_`). "
        "Into an argument that would change it for the caller too. Compute a new tensor.",
        "leaf Variable that requires grad is being used in an in-place operation",
    ),
    "view": CrashKind(
        "DETAIL",
        "`view` needs numbers that lie in memory in this order, which those of a slice or a transpose do not: `reshape`.",
        "view size is not compatible with input tensor's size and stride",
    ),
    "einsum axes": CrashKind(
        "DETAIL",
        "An equation of `einsum` has a letter for each axis, and a tensor has more or fewer axes here: where any number of "
        "batch axes may come first, write `...` for them, as in `...nd,od->...no`.",
        r"number of subscripts in the equation \(\d+\) does not match",
    ),
    "einsum sizes": CrashKind(
        "DETAIL",
        "One letter of `einsum` stands for axes of two sizes: either an axis is cut in the wrong place, or the letters do not "
        "follow the axes as they are stored, those of weights as (out, in). Write the shape of each tensor below its letters.",
        r"einsum\(\): subscript \w+ has size \d+ for operand",
    ),
    "einsum letters": CrashKind(
        "DETAIL",
        "`torch.einsum` takes its equation first, in single letters, as in `torch.einsum('...tf,...td->...tfd', k, v)`; the "
        "`einsum` of einops takes it last, in words with spaces.",
        r"subscripts must be in \[a-zA-Z\]|last argument passed to `einops.einsum` must be a string",
    ),
    "einops sizes": CrashKind(
        "DETAIL",
        "einops knows an axis as a whole, and not the sizes that are multiplied in round brackets: give all of them but one, "
        "as in `rearrange(x, '… (h d) -> …', h=n_heads)`.",
        "Could not infer sizes for",
    ),
    "undefined": CrashKind(
        "DETAIL",
        "A name in this line is not defined. Functions are written with their module, `torch.tanh`; a size such as d_k is read "
        "off a shape, `k.shape[-1]`.",
        r"^name '\w+' is not defined$",
    ),
    "float size": CrashKind(
        "DETAIL",
        "Sizes and indices must be integers, and `/` gives a float, also where nothing remains: `//`.",
        r"tuple of ints, ?(?:but )?(?:got|not|found element of type) float|must be int, not float|"
        r"slice indices must be integers|'float' object cannot be interpreted as an integer",
    ),
    "split": CrashKind(
        "DETAIL",
        "`split(n)` cuts into pieces of n entries each: `chunk(n)` cuts into n pieces.",
    ),
    "linear": CrashKind(
        "DETAIL",
        "`F.linear(x, W)` computes x Wᵀ: it takes W as (out, in) and transposes it itself. Yours would fit the other way.",
    ),
    "matrices only": CrashKind(
        "DETAIL",
        "`mm`, `mv`, `dot`, `bmm`, `addmm` and `multi_dot` take tensors of a fixed number of axes, and yours have another: "
        "`@` takes any number of batch axes.",
        r"must be a matrix|must be a 3D tensor|tensor must be 1D or 2D|1D tensors expected",
    ),
    "permute": CrashKind(
        "DETAIL",
        "`permute` names every axis, and the tensor has another number of them here. To exchange the last two, whatever comes "
        "before, write `x.mT`, and others by `transpose(-3, -2)`.",
        "does not match the length of the desired ordering of dimensions",
    ),
    "too many indices": CrashKind(
        "DETAIL",
        "You index more axes than the tensor has here. Where any number of batch axes may come first, count from the end: "
        "`x[..., i]`.",
        "too many indices for tensor of dimension",
    ),
    "no such axis": CrashKind(
        "DETAIL",
        "You name an axis that the tensor does not have: it has fewer here. `sum()` and `mean()` without an axis leave a "
        "number, and where any number of batch axes may come first, axes are counted from the end: `x.sum(-1)`.",
        "Dimension out of range",
    ),
    "mask shape": CrashKind(
        "DETAIL",
        "`x[mask]` does not broadcast its mask, which must have the first axes of x: take `masked_fill` or `torch.where`, or "
        "`mask.expand_as(x)`.",
        r"The shape of the mask \[.*\] at index \d+ does not match",
    ),
    "norm shape": CrashKind(
        "DETAIL",
        "`F.layer_norm` takes the shape of the last axes that are normalised together, which gain and bias have too: for the "
        "features alone, `x.shape[-1:]`.",
        "Expected weight to be of same shape as normalized_shape|Given normalized_shape=",
    ),
    "rows": CrashKind(
        "DETAIL",
        "`F.cross_entropy` is given more rows of logits than targets, or fewer: flatten the same axes of both, "
        "`logits.flatten(0, -2)` and `targets.flatten()`.",
        "Expected input batch_size",
    ),
    "one by one": CrashKind(
        "DETAIL",
        "You pass a tuple where its tensors are wanted one after the other: unpack it by `*`, as in `f(x, *weights)`.",
        "pass its tensors one by one",
    ),
    "overlap": CrashKind(
        "DETAIL",
        "You copy one part of a tensor onto another that overlaps it, so that it would change while it is read: copy a "
        "`.clone()`.",
        "some elements of the input tensor and the written-to tensor refer to a single memory location",
    ),
    "grows in place": CrashKind(
        "DETAIL",
        "An operation in place (`+=`, `*=`) cannot enlarge its left side, and the right side has more axes or entries: write "
        "`x = x * y`.",
        "doesn't match the broadcast shape",
    ),
    "nothing to reduce": CrashKind(
        "CASE",
        "An empty tensor has no largest and no smallest entry: say what the result is then.",
        "Expected reduction dim .*(?:to have non-zero size|input.numel)",
    ),
    "negative size": CrashKind(
        "CASE",
        "You ask for a tensor with a negative number of entries: a difference of sizes is below 0 here. Bound it, or cut a "
        "larger tensor.",
        "with negative dimension|Dimension size must be non-negative",
    ),
    "no such class": CrashKind(
        "DETAIL",
        "`F.cross_entropy` is given a class that has no logit: n classes are numbered from 0 to n - 1.",
        r"Target -?\d+ is out of bounds",
    ),
    "device": CrashKind(
        "CASE",
        "Of the tensors that meet here, one was made on the CPU and another on the device that was asked for: pass `device=` "
        "wherever you make a tensor.",
        "is not on the expected device|Expected all tensors to be on the same device",
    ),
    "init": CrashKind(
        "DETAIL",
        "The `__init__` of your module gives it parts before `super().__init__()` was called: make this its first line.",
        r"cannot assign (?:module|parameter)s? before Module.__init__\(\) call",
    ),
    "numpy": CrashKind(
        "CASE",
        "NumPy computes no gradients, so a tensor that needs one cannot be given to it. Compute with the functions of torch.",
        r"Can't call numpy\(\) on Tensor that requires grad",
    ),
    "no multiple": CrashKind(
        "DETAIL",
        "An axis is to be cut into equal parts, and its size is no multiple of their number. Is it this tensor that is to be "
        "cut, and has it been projected?",
        "can't divide axis of length",
    ),
    "no such row": CrashKind(
        "DETAIL",
        "A table, such as `nn.Embedding`, is asked for a row that it does not have. Rows are numbered from 0, and there must "
        "be one for each token, or for each position up to the longest text that is allowed.",
        "index out of range in self",
    ),
}
"""Kinds of errors, by name. The texts name nothing of the answer, so that one mistake has one text in a class."""

_ADVICE = (
    ("non-empty TensorList|non-empty list of Tensors", "The list may be empty: say what is returned then."),
    ("tensor has no dimensions|of a 0-dim? tensor", "A number has no axes: was it summed too far?"),
    (
        "mat1 and mat2 shapes|size mismatch, got|Expected size for first two dim|inconsistent tensor size",
        "In a product `@`, the last axis of the left tensor meets the one before the last of the right.",
    ),
    (
        r"The size of tensor a \(\d+\) must match",
        "Axes meet from the last one on, and these two sizes differ. If one tensor lacks an axis, add it by `[..., None]` or "
        "keep it by `keepdim=True`; if not, one of them is cut, repeated or padded wrongly.",
    ),
    (
        "have same number of dimensions|Sizes of tensors must match except",
        "`cat` joins tensors of as many axes, equal in all but one; `stack` makes a new axis.",
    ),
    ("Expected target size", "`F.cross_entropy` takes the classes on axis 1: `logits.mT`, or flatten all positions of both."),
    (r"index -\d+ is out of bounds", "If a negative index marks padding: replace it, and mask what it reads."),
    ("values to unpack", "The right side makes another number of values than there are names on the left."),
)
"""Pattern of the message, and advice on an error whose kind is not certain; the first that is found counts."""

_OF_SHAPES = re.compile(r"\b(?:sizes?|shapes?|dimensions?|equal size)\b|1-D argument|subscript", re.IGNORECASE)
_JOINS = {"cat", "concat", "concatenate", "stack"}
_ENTRYWISE = {"add", "sub", "rsub", "mul", "div", "truediv", "pow", "where", "maximum", "minimum"} | {
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
}
_TURNS = {"transpose", "permute", "swapaxes", "swapdims", "movedim", "t", "mT", "T", "rearrange"}
_REDUCTIONS = {"sum", "mean", "amax", "amin", "norm", "std", "var", "logsumexp"}
_OTHER_NAMES = {"swish": "F.silu"}
_PLACES = (
    ("F", F),
    ("torch", torch),
    ("x", Tensor),
    ("torch.linalg", torch.linalg),
    ("torch.special", torch.special),
    ("torch.fft", torch.fft),
    ("nn", nn),
    ("nn.init", nn.init),
    ("torch.optim", torch.optim),
)
_PAIRS = {"max", "min", "sort", "topk", "median", "mode", "kthvalue", "cummax", "cummin"}
"""Methods of tensors that return values with their indices, if they are given an axis."""
_RETURNED = re.compile(r"'(?:torch\.return_types\.\w+)'|not torch\.return_types\.\w+|'(\w+)'|must be Tensor, not (\w+)$")


@dataclass(frozen=True)
class Crash:
    """What is known of an error: its kind, one of KINDS or "", and advice with the shapes in the line that raised it."""

    kind: str = ""
    advice: str = ""


@dataclass(frozen=True)
class CrashSite:
    """Where the student's code raised an error: its last frame, the expression, and the frames of libraries that it called."""

    frame: FrameType
    expression: ast.AST | None
    raised_by_statement: bool
    called: tuple[FrameType, ...]

    @classmethod
    def of(cls, traceback: TracebackType, called: Sequence[FrameType]) -> "CrashSite":
        """Find the expression at an entry of a traceback."""
        code = traceback.tb_frame.f_code
        operation = dis.opname[code.co_code[traceback.tb_lasti]]
        return cls(traceback.tb_frame, _expression(code, traceback.tb_lasti), "RAISE" in operation, tuple(called))

    @property
    def scope(self) -> dict[str, object]:
        """All variables that the frame sees, by name."""
        return {**self.frame.f_globals, **self.frame.f_locals}

    def values(self) -> dict[str, object]:
        """The variables in the expression, by name."""
        return self._found(list(ast.walk(self.expression)) if self.expression else [])

    def operands(self) -> dict[str, object]:
        """The variables that the outermost operator, call or attribute of the expression takes, by name."""
        outermost = _inner(self.expression)
        nodes = list(ast.iter_child_nodes(outermost)) if outermost is not None else []
        nodes += [node.left for node in nodes if isinstance(node, ast.Compare)]
        return self._found([node.value if isinstance(node, ast.keyword) else node for node in (outermost, *nodes)])

    def unpacks_a_shape(self) -> bool:
        """Whether the line unpacks the shape of a tensor."""
        line = linecache.getline(self.frame.f_code.co_filename, self.frame.f_lineno)
        return re.search(r"=\s*[\w.\[\]]+\.(?:shape|size\(\))\s*(?:[;#].*)?$", line) is not None

    def begins_with_a_pair(self) -> bool:
        """Whether the left side of an operator calls a Python function, or a method that returns values with their indices."""
        match _inner(self.expression):
            case ast.BinOp(left=ast.Call(func=ast.Name(id=name))):
                return isinstance(self.scope.get(name), FunctionType | nn.Module)
            case ast.BinOp(left=ast.Call(func=ast.Attribute(attr=name), args=args, keywords=keywords)):
                return name in _PAIRS and bool(args or keywords)
        return False

    def passes_a_tuple_whole(self) -> bool:
        """Whether the expression is a call that is given a tuple of the scope, or a part of one, and unpacks none by `*`."""
        match _inner(self.expression):
            case ast.Call(args=args) if not any(isinstance(one, ast.Starred) for one in args):
                named = [one.value if isinstance(one, ast.Subscript) else one for one in args]
                return any(isinstance(value, tuple) for value in self._found(named).values())
        return False

    def _found(self, nodes: Sequence[ast.AST | None]) -> dict[str, object]:
        scope = self.scope
        names = sorted((node for node in nodes if isinstance(node, ast.Name)), key=lambda node: (node.lineno, node.col_offset))
        return {node.id: scope[node.id] for node in names if node.id in scope}


def crash_of(error: Exception, place: CrashSite, raising: RaisingCall | None, call: Sequence[object]) -> Crash:
    """Describe an error that an answer raised at a place; `raising` is the operation of torch that raised it, if any."""
    if place.raised_by_statement:
        return Crash()
    kind = _kind(error, place, raising, call)
    return Crash(kind, _advice(error, place, raising, kind))


def advice_on(error: BaseException) -> str:
    """Return what to do about an error whose kind is not certain; "" if it depends on the exercise."""
    return next((advice for pattern, advice in _ADVICE if re.search(pattern, str(error))), "")


def _kind(error: Exception, place: CrashSite, raising: RaisingCall | None, call: Sequence[object]) -> str:
    text = str(error)
    if said := [name for name, kind in KINDS.items() if kind.words and re.search(kind.words, text)]:
        is_chain = said[0] == "truth" and isinstance(one := _inner(place.expression), ast.Compare) and len(one.ops) > 1
        return "chain" if is_chain else said[0]
    if isinstance(error, ModuleNotFoundError):
        return "package"
    if isinstance(error, AttributeError) and error.name is not None:
        return _of_attribute(error, place)
    if ("NoneType" in text or "got (bool" in text) and _argument_of_none(place):
        return "None"
    if "required positional argument" in text and place.passes_a_tuple_whole():
        return "one by one"
    if isinstance(error, TypeError) and _several_results(text, place):
        return "several results"
    if "only one element tensors can be converted" in text or "cannot be converted to Scalar" in text:
        return _of_one_number(place.expression)
    if "non-empty list of Tensors" in text or "non-empty TensorList" in text:
        return "empty" if any(_is_empty(value) for value in call) else ""
    if _classes_are_last(text, place):
        return "classes"
    if "values to unpack" in text and raising is not None and raising.name == "split":
        return "split"
    if "values to unpack" in text and raising is not None and raising.name in ("shape", "size") and place.unpacks_a_shape():
        return "axes"
    if raising is None or not isinstance(error, RuntimeError):
        return ""
    return _of_shapes(place.expression, raising, call)


def _of_shapes(expression: ast.AST | None, raising: RaisingCall, call: Sequence[object]) -> str:
    """The kind of an error that the shapes of the operands of one operation show."""
    shapes = [tuple(t.shape) for t in raising.tensors]
    if raising.name == "outer" and any(len(shape) > 1 for shape in shapes):
        return "outer"
    if raising.name == "matmul" and _is_linear(expression) and len(shapes) > 1 and len(shapes[1]) == 2:
        return "linear" if shapes[0][-1] == shapes[1][0] != shapes[1][1] else ""
    if raising.name == "matmul" and len(shapes) == 2 and (nodes := _factors(expression)) is not None:
        return _of_product(*nodes, *shapes)
    if raising.name in _JOINS and shapes:
        return _of_joined(raising, shapes, call)
    if raising.name in _ENTRYWISE and not _broadcasts(*shapes):
        if [len(shape) for shape in shapes] == [1, 1]:
            return "column"
        small, large = min(shapes, key=len), max(shapes, key=len)
        n = _n_places(small, large) if len(small) == len(large) - 1 else 0
        if all(shape in (small, large) for shape in shapes) and (n == 1 or (n and _is_by_a_reduction(expression))):
            return "lacks an axis"
    return ""


def _of_product(left: ast.AST, right: ast.AST, a: tuple[int, ...], b: tuple[int, ...]) -> str:
    """The kind of an error in the product of two tensors of shapes a and b."""
    if _multiplies(a, b):
        return ""
    for node, shape, other, first in ((right, b, a, False), (left, a, b, True)):
        if _is_attribute(node, "T") and len(shape) > 2:
            turned = _swapped(shape[::-1])
            return "all axes" if (_multiplies(turned, other) if first else _multiplies(other, turned)) else ""
    turned_left, turned_right = _turns(left), _turns(right)
    if not turned_left and not turned_right:
        unlike = (len(b) > 1 and b[-2] not in a[:-1]) or _is_weights(right)
        if len(b) > 1 and a[-1] == b[-1] and unlike and _multiplies(a, _swapped(b)):
            return "not transposed"
        if len(a) > 1 < len(b) and a[-2] == b[-2] and a[-1] not in b[-1:] and _multiplies(_swapped(a), b):
            return "not transposed"
    is_turned = [_is_attribute(node, "mT") or _is_attribute(node, "T") for node in (left, right)]
    one_is_turned = (is_turned[1] and not turned_left) or (is_turned[0] and not turned_right)
    return "other factor" if one_is_turned and len(a) > 1 < len(b) and _multiplies(_swapped(a), _swapped(b)) else ""


def _of_joined(raising: RaisingCall, shapes: list[tuple[int, ...]], call: Sequence[object]) -> str:
    """The kind of an error in joining tensors of several shapes."""
    most = max(map(len, shapes))
    along = range(most if raising.name != "stack" and len({len(shape) for shape in shapes}) == 1 else 0)
    joins = len(set(shapes)) == 1 or any(len({(*shape[:i], *shape[i + 1 :]) for shape in shapes}) == 1 for i in along)
    if not joins and any(isinstance(value, list | tuple) and _shapes(value) == shapes for value in call):
        return "list of shapes"
    if raising.name == "stack" or len({len(shape) for shape in shapes}) > 2 or most == 0:
        return ""
    axis = next((n for n in (*raising.args[1:2], *raising.kwargs.values()) if type(n) is int), 0) % most
    if any(len(shape) < most - 1 for shape in shapes):
        return ""
    if any(len(shape) < most for shape in shapes):
        wide = next(shape for shape in shapes if len(shape) == most)
        narrow = {shape for shape in shapes if len(shape) < most}
        if any(axis == i and all(shape == (*wide[:i], *wide[i + 1 :]) for shape in narrow) for i in range(most)):
            return "cat lacks an axis"
        return ""
    differs = [i for i in range(most) if len({shape[i] for shape in shapes}) > 1]
    if len(differs) == 1 and differs != [axis] and all(shape[differs[0]] > 1 for shape in shapes):
        return "cat axis"
    others = [(*shape[:axis], *shape[axis + 1 :]) for shape in shapes]
    return "cat does not broadcast" if len(set(others)) > 1 and _broadcasts(*others) else ""


def _of_attribute(error: AttributeError, place: CrashSite) -> str:
    owner, name = error.obj, str(error.name)
    if isinstance(owner, ModuleType):
        return _of_unknown(name) if owner.__name__.partition(".")[0] == "torch" else ""
    if type(owner) is Tensor:
        return _of_unknown(name)
    if owner is None:
        return "None" if _argument_of_none(place) else ""
    if isinstance(owner, tuple) and (hasattr(owner, "_fields") or hasattr(owner, "n_fields")):
        return "several results" if hasattr(Tensor, name) else ""
    if type(owner) in (list, tuple):
        return "no attribute of a list"
    return "no attribute of a number" if type(owner) in (int, float) and hasattr(Tensor, name) else ""


def _of_unknown(name: str) -> str:
    return "elsewhere" if any(hasattr(place, name) for _, place in _PLACES) else "invented"


def _of_one_number(expression: ast.AST | None) -> str:
    match _inner(expression):
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"))):
            return "math"
        case ast.Call(func=ast.Name(id="int" | "float")) | ast.Call(func=ast.Attribute(attr="item")):
            return "one entry"
    return ""


def _classes_are_last(text: str, place: CrashSite) -> bool:
    """Whether `F.cross_entropy` was given logits (B, T, C) and targets (B, T)."""
    if "Expected target size" not in text:
        return False
    given = next((f.f_locals for f in place.called if f.f_code.co_name in ("cross_entropy", "nll_loss")), {})
    logits, target = given.get("input"), given.get("target")
    if not (isinstance(logits, Tensor) and isinstance(target, Tensor)):
        return False
    return logits.dim() > 2 and tuple(target.shape) == tuple(logits.shape[:-1])


def _argument_of_none(place: CrashSite) -> str:
    """The operand of the expression that is an argument of the student's function, and came as None; "" if there is none."""
    code = place.frame.f_code
    before = [one for one in dis.get_instructions(code) if one.offset < place.frame.f_lasti]
    stored = [one.argval for one in before if "STORE_FAST" in one.opname]
    written = {name for names in stored for name in (names if isinstance(names, tuple) else (names,))}
    arguments = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]} - written
    return next((name for name, value in place.operands().items() if name in arguments and value is None), "")


def _several_results(text: str, place: CrashSite) -> bool:
    """Whether a function or an operator of torch was given a named tuple."""
    if "can only concatenate tuple" in text or "can't multiply sequence" in text:  # what Python says if the tuple comes first
        return place.begins_with_a_pair()
    if "unsupported operand type" not in text and "must be Tensor, not" not in text:
        return False
    if "must be Tensor, not tuple" in text:  # as an `nn.LSTM` returns it
        return any(isinstance(one, tuple) and list(map(type, one)) == [Tensor, tuple] for one in place.values().values())
    named = {kind.__name__ for kind in tuple.__subclasses__() if hasattr(kind, "_fields")}
    return any("return_types" in found[0] or (found[1] or found[2]) in named for found in _RETURNED.finditer(text))


def _advice(error: Exception, place: CrashSite, raising: RaisingCall | None, kind: str) -> str:
    """Write the shapes of all tensors in the expression, or the name of torch that comes nearest to one that does not exist."""
    if kind in ("invented", "elsewhere"):
        return _nearest(error.obj, str(error.name))
    if kind == "undefined":
        return _on_name(str(error.name), place)
    if kind == "None":
        return f"It is `{_argument_of_none(place)}`."
    if not isinstance(error, RuntimeError | ValueError) or not _OF_SHAPES.search(str(error)):
        return ""
    named = {name: tuple(value.shape) for name, value in place.values().items() if isinstance(value, Tensor) and value.dim()}
    met = [tuple(tensor.shape) for tensor in raising.tensors] if raising is not None else []
    if not named and not met:
        return ""
    product = raising is not None and raising.name == "matmul"
    shapes = ", ".join(f"`{name}` {shape}" for name, shape in list(named.items())[:8])
    written = f"Write its shape beside each {'factor' if product else 'tensor'} of this line: {shapes}." if shapes else ""
    known = {sizes for shape in named.values() for sizes in (shape, (*shape[:-2], *shape[:-3:-1]))}
    given = (" @ " if product and len(met) == 2 else " and ").join(map(str, met[:4]))
    given = "" if known.issuperset(met) else f"The operation that fails is given {given}."
    return " ".join(filter(None, (_on_product(place.expression, raising) if product and not kind else "", written, given)))


def _on_product(expression: ast.AST | None, raising: RaisingCall) -> str:
    """What is likely of a product whose error has no kind: an entrywise one is meant, a vector or weights are to be turned."""
    nodes, shapes = _factors(expression), [tuple(t.shape) for t in raising.tensors]
    if nodes is None or len(shapes) != 2:
        return ""
    if shapes[0] == shapes[1]:
        return "If it is meant entry by entry, as ⊙ is, write `*`."
    if any(len(shape) == 1 for shape in shapes):
        return "A vector needs an axis of size 1 to be multiplied like a row or a column."
    weights = any(map(_is_weights, nodes))
    return "Weights W (out, in) are applied as `x @ W.mT`." if weights and not any(map(_turns, nodes)) else ""


def _on_name(name: str, place: CrashSite) -> str:
    """What may be meant by a name that is not defined: a function of torch, a size in the signature, a name much like it."""
    if name in ("np", "numpy"):
        return "NumPy is not imported here: take the functions of torch."
    if found := next((where for where, module in (("torch", torch), ("F", F), ("nn", nn)) if hasattr(module, name)), ""):
        return f"`{name}` exists as `{found}.{name}`."
    function = place.frame.f_globals.get(place.frame.f_code.co_name)
    for argument, annotation in getattr(function, "__annotations__", {}).items():
        axes = str(getattr(annotation, "dim_str", "")).split()
        if name in axes and argument != "return":
            size = f"{argument}.shape[{axes.index(name) - len(axes)}]"
            return f"In the signature, `{name}` is the name of an axis: its size is `{size}`."
    near = difflib.get_close_matches(name, place.scope, n=1, cutoff=0.8)
    return f"The nearest name that is defined is `{near[0]}`." if near else ""


def _nearest(owner: object, name: str) -> str:
    for where, place in _PLACES:
        if hasattr(place, name):
            return f"`{name}` exists as `{where}.{name}`."
    if name in _OTHER_NAMES:
        return f"Perhaps you mean `{_OTHER_NAMES[name]}`."
    near = difflib.get_close_matches(name, [one for one in dir(owner) if one[0] != "_"], n=1, cutoff=0.8)
    return f"The nearest name that exists is `{near[0]}`." if near else ""


def _expression(code: CodeType, at: int) -> ast.AST | None:
    """Parse the expression that an instruction belongs to; None if its source is not to be had."""
    line, end_line, column, end_column = next(islice(code.co_positions(), at // 2, None), (None,) * 4)
    if None in (line, end_line, column, end_column):
        return None
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(line, end_line + 1)]
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    source = b"".join(lines).decode(errors="replace")
    for text in (f"({source})", source):
        try:
            return ast.parse(text).body[0]
        except (SyntaxError, IndexError):
            continue
    return None


def _inner(statement: ast.AST | None) -> ast.AST | None:
    """The expression that a statement consists of."""
    return statement.value if isinstance(statement, ast.Expr) else statement


def _factors(statement: ast.AST | None) -> tuple[ast.AST, ast.AST] | None:
    """The two factors of a product of matrices, as they are written."""
    match _inner(statement):
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return left, right
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="matmul" | "mm" | "bmm"), args=[left, right]):
            return left, right
        case ast.Call(func=ast.Attribute(value=left, attr="matmul" | "mm" | "bmm"), args=[right]):
            return left, right
    return None


def _is_linear(statement: ast.AST | None) -> bool:
    match _inner(statement):
        case ast.Call(func=ast.Attribute(attr="linear") | ast.Name(id="linear")):
            return True
    return False


def _is_by_a_reduction(statement: ast.AST | None) -> bool:
    """Whether a line divides by a sum, subtracts a mean, or the like, without keeping the axis: `x / x.sum(-1)`."""
    match _inner(statement):
        case ast.BinOp(right=ast.Call(func=ast.Attribute(attr=name), keywords=given)):
            return name in _REDUCTIONS and all(one.arg != "keepdim" for one in given)
    return False


def _is_attribute(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _is_weights(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id.startswith("W")


def _turns(node: ast.AST) -> bool:
    """Whether a factor is written with its axes exchanged, as in `k.mT`, `k.mT / 2` or `k.transpose(-2, -1)`."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div()):
            return _turns(left)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) | ast.Attribute(attr=name):
            return name in _TURNS
    return False


def _swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2])


def _multiplies(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return bool(a) and bool(b) and a[-1] == b[-2 if len(b) > 1 else -1] and _broadcasts(a[:-2], b[:-2])


def _broadcasts(*shapes: tuple[int, ...]) -> bool:
    try:
        torch.broadcast_shapes(*shapes)
    except RuntimeError:
        return False
    return True


def _n_places(small: tuple[int, ...], large: tuple[int, ...]) -> int:
    """In how many places an axis of size 1 makes the smaller shape broadcast to the larger one."""
    with_axis = ((*small[:i], 1, *small[i:]) for i in range(len(large)))
    return sum(all(m in (1, n) for m, n in zip(one, large, strict=True)) for one in with_axis)


def _is_empty(value: object) -> bool:
    return (isinstance(value, Tensor) and not value.numel()) or (isinstance(value, list | tuple) and not value)


def _shapes(values: Sequence[object]) -> list[tuple[int, ...]]:
    return [tuple(value.shape) for value in values if isinstance(value, Tensor)]
