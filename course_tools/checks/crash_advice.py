"""Advice on errors that mean the same in every exercise, by what torch or Python says of them."""

import re

_ADVICE = (
    (
        r"module 'torch[\w.]*' has no attribute '(\w{1,40})'",
        r"There is no function of the name `\1`. Activations are in `torch.nn.functional`: `F.elu`, `F.silu`, `F.gelu`.",
    ),
    (r"No module named '([\w.]{1,40})'", r"The course does without `\1`: torch and einops are enough."),
    (
        "Index tensor must have the same number of dimensions",
        "`gather` takes an index with as many axes as the tensor: give it one of size 1, `index.unsqueeze(-1)`.",
    ),
    (
        "expected scalar type Long|must be long, int|dtype to be Long",
        "Classes and indices are integers: `.long()`.",
    ),
    (
        "to have the same dtype|expected scalar type (?:Float|Double)|Expected self.dtype to be equal",
        "Two kinds of numbers meet, such as integers or bools and floats: convert one by `.to(x.dtype)`.",
    ),
    ("Boolean value of Tensor with more", "`if` takes one truth value. To choose for each entry, take `torch.where`."),
    ("tensor has no dimensions", "A number has no axes: was it summed too far?"),
    ("on Tensor that requires grad", "Numbers that leave torch have no gradient: `.detach()` before `.numpy()`."),
    ("a leaf Variable that requires grad", "An argument is changed in place: make a new tensor instead."),
    (
        "mat1 and mat2 shapes|size mismatch, got|Expected size for first two dim|inconsistent tensor size",
        "In a product `@`, the last axis of the left tensor meets the one before the last of the right: W (out, in) is applied "
        "as `x @ W.mT`, and a vector needs an axis of size 1.",
    ),
    (
        r"The size of tensor a \(\d+\) must match",
        "Axes are compared from the last one: add one that is missing by `[..., None]`, or keep it by `keepdim=True`. `.mT` "
        "turns the last two axes of a batch, `.T` all of them.",
    ),
    (
        "have same number of dimensions|Sizes of tensors must match except",
        "`cat` joins tensors of as many axes, equal in all but one; `stack` makes a new axis.",
    ),
    ("non-empty TensorList", "The list may be empty: say what is returned then."),
    ("Expected target size", "`F.cross_entropy` takes the classes on axis 1: `logits.mT`, or flatten all positions of both."),
    (r"return_types\.", "This function returns several tensors: take one by its name, such as `.values`, or call `amax`."),
    ("is invalid for input of size", "`reshape` keeps the number of entries: print the shape before it."),
    ("must be Tensor, not (?:int|float)", "For a plain number take Python's own: `d**0.5`, `math.log`."),
    ("operator, (?:on a|with two) bool tensor", "The opposite of a mask is `~mask`."),
    (r"index -\d+ is out of bounds", "A negative index marks padding: replace it, and mask what it reads."),
    ("values to unpack", "Count what stands on the left. Any number of axes may come before: `*batch, T, d = x.shape`."),
)
"""Pattern of the message, and advice; the first that is found counts."""


def advice_on(error: BaseException) -> str:
    """Return what to do about an error that is the same in every exercise; "" if it depends on the exercise."""
    text = str(error)
    for pattern, advice in _ADVICE:
        if found := re.search(pattern, text):
            return found.expand(advice)
    return ""
