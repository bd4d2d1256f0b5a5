"""Parameter counts of published models, and the cost of training them.

Radford et al. 2018 and 2019; Brown et al. 2020, table 2.1 (https://arxiv.org/abs/2005.14165). Training takes about 6 operations
for each parameter and token, Kaplan et al. 2020, section 2.1 (https://arxiv.org/abs/2001.08361). Tolstikhin et al. 2021,
table 1 (https://arxiv.org/abs/2105.01601): Mixer-S/16 18M, B/16 59M, L/16 207M, H/14 431M; all seven counts are without a head.
"""

from course_lib.blocks.block import Sizes
from course_lib.blocks.mlp_mixer import MixerSizes

__all__ = [
    "GPT_1",
    "GPT_2",
    "GPT_3",
    "MIXER_BASE",
    "MIXER_HUGE",
    "MIXER_LARGE",
    "MIXER_SMALL",
    "gpt_parameters",
    "mixer_parameters",
    "training_operations",
]

GPT_1 = Sizes(d_model=768, n_heads=12, d_ff=3072, n_layers=12)
GPT_2 = Sizes(d_model=1600, n_heads=25, d_ff=6400, n_layers=48)
GPT_3 = Sizes(d_model=12288, n_heads=96, d_ff=49152, n_layers=96)
MIXER_SMALL = MixerSizes(d_model=512, d_tokens=256, d_channels=2048, n_layers=8)
MIXER_BASE = MixerSizes(d_model=768, d_tokens=384, d_channels=3072, n_layers=12)
MIXER_LARGE = MixerSizes(d_model=1024, d_tokens=512, d_channels=4096, n_layers=24)
MIXER_HUGE = MixerSizes(d_model=1280, d_tokens=640, d_channels=5120, n_layers=32)


def gpt_parameters(n_tokens: int, T_max: int, d_model: int, n_layers: int, n_norms_at_the_end: int = 1) -> int:
    """Count the parameters of a GPT; its feed-forward networks have width 4 d_model, and its last matrix is the embedding.

    Each block has four projections (queries, keys, values, and output), a network of two layers, all six with
    biases, and two norms, each with a gain and a bias.

    Args:
        n_tokens: size of the vocabulary.
        T_max: positions, each a learned vector.
        d_model: features of a token.
        n_layers: blocks.
        n_norms_at_the_end: norms after the last block; 1 from GPT-2 on, 0 in GPT-1.

    Returns:
        the number of parameters, an int.

    Source: Radford et al. 2019, section 2.3; Brown et al. 2020, table 2.1.
    """
    embeddings = (n_tokens + T_max) * d_model
    attention = 4 * (d_model**2 + d_model)
    network = 2 * 4 * d_model**2 + 4 * d_model + d_model
    norm = 2 * d_model
    return embeddings + n_layers * (attention + network + 2 * norm) + n_norms_at_the_end * norm


def mixer_parameters(
    d_model: int, d_tokens: int, d_channels: int, n_layers: int, n_patches: int, d_patch: int, n_classes: int
) -> int:
    """Count the parameters of an MLP-Mixer.

    Each block has a network over the patches and one over the channels, of two layers with biases each, and two norms, each a
    gain and a shift; one more norm follows the last block.

    Args:
        d_model: channels.
        d_tokens: width of the networks over patches.
        d_channels: width of the networks over channels.
        n_layers: blocks.
        n_patches: number of patches.
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


def training_operations(n_parameters: int, n_tokens_read: float) -> float:
    """Estimate the additions and multiplications of training: per parameter and token, 2 forwards and 4 backwards.

    Args:
        n_parameters: of the model; exclude embeddings if they are a large part: they are looked up, not multiplied.
        n_tokens_read: tokens that training reads, all epochs counted.

    Returns:
        the number of operations; GPT-3: 3.14e23, Brown et al. 2020, appendix D.

    Source: Kaplan et al. 2020, section 2.1.
    """
    return 6 * n_parameters * n_tokens_read
