"""How large the published models of vision are: parameters counted from their sizes.

Dosovitskiy et al. 2021, table 1 (https://arxiv.org/abs/2010.11929): ViT-Base 86M, Large 307M, Huge 632M; Tolstikhin et al.
2021, table 1 (https://arxiv.org/abs/2105.01601): Mixer-S/16 18M, B/16 59M, L/16 207M, H/14 431M. All seven of Mixer's
counts are those without a head; ViT's are met to 1.3 %, with a head or without.
"""

from course_lib.blocks.stack import Sizes
from course_lib.models.mixer import MixerSizes

VIT_BASE = Sizes(d_model=768, n_heads=12, d_ff=3072, n_layers=12)
VIT_LARGE = Sizes(d_model=1024, n_heads=16, d_ff=4096, n_layers=24)
VIT_HUGE = Sizes(d_model=1280, n_heads=16, d_ff=5120, n_layers=32)
MIXER_SMALL = MixerSizes(d_model=512, d_tokens=256, d_channels=2048, n_layers=8)
MIXER_BASE = MixerSizes(d_model=768, d_tokens=384, d_channels=3072, n_layers=12)
MIXER_LARGE = MixerSizes(d_model=1024, d_tokens=512, d_channels=4096, n_layers=24)
MIXER_HUGE = MixerSizes(d_model=1280, d_tokens=640, d_channels=5120, n_layers=32)


def vit_parameters(
    d_model: int, d_ff: int, n_layers: int, n_patches: int, d_patch: int, n_classes: int, n_learned: int = 1
) -> int:
    """Count the parameters of a ViT, one head of one layer for each learned token.

    Each block has four projections and a network of two layers, all six with biases, and two norms, each a gain and a shift;
    one more norm closes the stack.

    Args:
        d_model: features of a token.
        d_ff: features inside the feed-forward networks.
        n_layers: blocks.
        n_patches: patches of an image, each with a learned position.
        d_patch: numbers in a patch, C · P².
        n_classes: classes of each head; 0 = without heads.
        n_learned: 1 in ViT, 2 in DeiT; each has a position too.

    Returns:
        the number of parameters, an int.

    Source: Dosovitskiy et al. 2021, eqs. 1-4 and table 1.
    """
    embedding = d_patch * d_model + d_model
    tokens = n_learned * d_model + (n_learned + n_patches) * d_model
    attention = 4 * (d_model**2 + d_model)
    network = 2 * d_model * d_ff + d_ff + d_model
    norm = 2 * d_model
    heads = n_learned * (d_model + 1) * n_classes
    return embedding + tokens + n_layers * (attention + network + 2 * norm) + norm + heads


def mixer_parameters(
    d_model: int, d_tokens: int, d_channels: int, n_layers: int, n_patches: int, d_patch: int, n_classes: int
) -> int:
    """Count the parameters of an MLP-Mixer.

    Each block has a network over the places and one over the channels, of two layers with biases each, and two norms, each a
    gain and a shift; one more norm closes the stack.

    Args:
        d_model: channels.
        d_tokens: width of the networks over places.
        d_channels: width of the networks over channels.
        n_layers: blocks.
        n_patches: places.
        d_patch: numbers in a patch, C · P².
        n_classes: classes of the head; 0 = without it.

    Returns:
        the number of parameters, an int.

    Source: Tolstikhin et al. 2021, eq. 1 and table 1.
    """
    embedding = d_patch * d_model + d_model
    over_places = 2 * n_patches * d_tokens + d_tokens + n_patches
    over_channels = 2 * d_model * d_channels + d_channels + d_model
    norm = 2 * d_model
    return embedding + n_layers * (over_places + over_channels + 2 * norm) + norm + (d_model + 1) * n_classes
