"""What token mixing costs against attention, and how many parameters two variants of MLP-Mixer have: for lecture 13."""

from collections.abc import Callable, Sequence

import torch

from course_lib.attention import scaled_dot_product_attention
from course_lib.blocks import MixerSizes, TokenMixing
from course_tools.notebook.layer_costs import exponent, multiply_adds


def growth_of_work(positions: Sequence[int], d: int = 32) -> dict[str, float]:
    """Fit the exponents with which the multiply-adds of three layers grow with the number N of positions.

    Args:
        positions: numbers of positions.
        d: number of channels.

    Returns:
        the exponents of "attention" (one head, without projections), of "token mixing" with 128 hidden units, and of
        "token mixing, 4N" with 4N hidden units.
    """
    work: dict[str, list[int]] = {"attention": [], "token mixing": [], "token mixing, 4N": []}
    for N in positions:
        x = torch.zeros(1, N, d)
        work["attention"].append(multiply_adds(scaled_dot_product_attention, x, x, x))
        work["token mixing"].append(multiply_adds(TokenMixing(N, 128), x))
        work["token mixing, 4N"].append(multiply_adds(TokenMixing(N, 4 * N), x))
    return {name: exponent(positions, counts) for name, counts in work.items()}


def with_wide_networks(count: Callable[..., int], sizes: MixerSizes, P: int, side: int = 224) -> int:
    """Count the parameters of a Mixer without a head whose networks are four times as wide as their inputs.

    Args:
        count: `mixer_parameters`.
        sizes: the width d_model and the number of layers are used.
        P: side of a patch.
        side: of the image, of three channels.
    """
    N = (side // P) ** 2
    return count(sizes.d_model, 4 * N, 4 * sizes.d_model, sizes.n_layers, N, 3 * P**2, 0)


def with_a_network_for_each_channel(count: Callable[..., int], sizes: MixerSizes, P: int, side: int = 224) -> int:
    """Count the parameters of a Mixer without a head in which each channel has its own token-mixing network.

    The arguments are those of `with_wide_networks`.
    """
    N = (side // P) ** 2
    network = 2 * N * sizes.d_tokens + sizes.d_tokens + N
    return count(*sizes, N, 3 * P**2, 0) + sizes.n_layers * (sizes.d_model - 1) * network
