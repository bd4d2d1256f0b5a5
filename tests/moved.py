"""Copy what a test calls to another device or precision: tensors, modules, partial functions, and containers of them."""

import copy
from functools import partial

import torch
from torch import Tensor, nn


def moved(x: object, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> object:
    """Move tensors and modules, also inside tuples, lists, dicts and partial functions; `dtype` is that of floats alone."""
    if isinstance(x, Tensor):
        there = x.detach().to(device, dtype if x.is_floating_point() else None)
        return there.requires_grad_(x.requires_grad)
    if isinstance(x, nn.Module):
        return copy.deepcopy(x).to(device, dtype)
    if isinstance(x, partial):
        func, args, keywords = (moved(part, device, dtype) for part in (x.func, x.args, x.keywords))
        return partial(func, *args, **keywords)
    if isinstance(x, dict):
        return {key: moved(value, device, dtype) for key, value in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(moved(part, device, dtype) for part in x))
    return type(x)(moved(part, device, dtype) for part in x) if isinstance(x, tuple | list) else x
