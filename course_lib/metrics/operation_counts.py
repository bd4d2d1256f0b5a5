"""Parameters and multiply-adds of a convolution, and of the local attention that replaces it.

Ramachandran et al. 2019, section 2.2 (https://arxiv.org/abs/1906.05909): few of attention's parameters depend on the window,
and its operations grow with size² · d_out, while those of a convolution grow with size² · d_in · d_out:

    convolution      size² d_in d_out parameters, as many multiply-adds at each pixel
    local attention  3 d_in d_out + size d_out parameters;  3 d_in d_out + 2 size² d_out + size d_out multiply-adds
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import nn

__all__ = ["OperationCount", "convolution_cost", "count_operations", "local_attention_cost"]


class OperationCount(NamedTuple):
    """Parameters, and multiply-adds of one image; "FLOPs" are twice as many, or as many, depending on the author."""

    parameters: int
    multiply_adds: int


def convolution_cost(d_in: int, d_out: int, size: int, H: int, W: int, stride: int = 1) -> OperationCount:
    """Count a convolution without bias whose borders are padded by size // 2.

    Args:
        d_in: features of an input pixel.
        d_out: features of an output pixel.
        size: side of the kernel, odd.
        H: rows of the image.
        W: columns of the image.
        stride: steps between two outputs; there are ⌈H / stride⌉ · ⌈W / stride⌉.

    Returns:
        parameters and multiply-adds; products with the padding count.

    Source: Ramachandran et al. 2019, section 2.1.
    """
    n_outputs = -(-H // stride) * -(-W // stride)
    parameters = size**2 * d_in * d_out
    return OperationCount(parameters, n_outputs * parameters)


def local_attention_cost(d_in: int, d_out: int, size: int, H: int, W: int, stride: int = 1) -> OperationCount:
    """Count a layer of local attention with relative rows and columns; the number of heads does not matter.

    The matrices W_q, W_k, W_v (d_out, d_in) have no bias. Each of the size rows and size columns of a window has a vector of
    d_out / 2 features, all heads together.

    Args:
        d_in: features of an input pixel.
        d_out: features of an output pixel.
        size: side of the window, odd.
        H: rows of the image.
        W: columns of the image.
        stride: steps between two queries; ⌈H / stride⌉ · ⌈W / stride⌉ pixels are queries, all H · W are keys.

    Returns:
        parameters and multiply-adds: of the projections, of the products with keys and values in each window, and of those with
        the vectors of rows and columns, size of each for a query. Positions outside the image count; the softmax does not.

    Source: Ramachandran et al. 2019, section 2.2 and eq. 3.
    """
    n_queries = -(-H // stride) * -(-W // stride)
    offsets = size * d_out
    projections = (n_queries + 2 * H * W) * d_in * d_out
    in_windows = n_queries * 2 * size**2 * d_out
    return OperationCount(3 * d_in * d_out + offsets, projections + in_windows + n_queries * offsets)


def count_operations(module: nn.Module, run: Callable[[], object]) -> OperationCount:
    """Count the parameters of a module, and the multiply-adds of all products and convolutions while `run()` runs.

    torch's counter does not see fused attention on a CPU, nor sums of elementwise products: count the equation form.
    """
    from torch.utils.flop_counter import FlopCounterMode  # a slow import that only this function needs

    with FlopCounterMode(display=False) as counter:
        run()
    return OperationCount(sum(p.numel() for p in module.parameters()), counter.get_total_flops() // 2)
