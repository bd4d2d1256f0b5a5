"""Parameter counts of published models, and the cost of training them.

A block of width d with a feed-forward network of d_ff has, biases and norms counted,

    attention 4 (d² + d)        feed-forward 2 d d_ff + d_ff + d        norm 2 d

Vaswani et al. 2017, table 3 (https://arxiv.org/abs/1706.03762); Devlin et al. 2019, section 3 (https://arxiv.org/abs/1810.04805);
Radford et al. 2018 and 2019; Brown et al. 2020, table 2.1 (https://arxiv.org/abs/2005.14165). Training takes about 6 operations
for each parameter and token, Kaplan et al. 2020, section 2.1 (https://arxiv.org/abs/2001.08361).

Of vision: Dosovitskiy et al. 2021, table 1 (https://arxiv.org/abs/2010.11929), ViT-Base 86M, Large 307M, Huge 632M; Tolstikhin
et al. 2021, table 1 (https://arxiv.org/abs/2105.01601), Mixer-S/16 18M, B/16 59M, L/16 207M, H/14 431M. All seven of Mixer's
counts are without a head; ViT's agree to 1.3 %, with or without a head.
"""

from course_lib.blocks.block import Sizes
from course_lib.blocks.mlp_mixer import MixerSizes

__all__ = [
    "BERT_BASE",
    "BERT_LARGE",
    "GPT_1",
    "GPT_2",
    "GPT_3",
    "MIXER_BASE",
    "MIXER_HUGE",
    "MIXER_LARGE",
    "MIXER_SMALL",
    "TRANSFORMER_BASE",
    "TRANSFORMER_BIG",
    "VIT_BASE",
    "VIT_HUGE",
    "VIT_LARGE",
    "bert_parameters",
    "block_parameters",
    "gpt_parameters",
    "mixer_parameters",
    "training_operations",
    "transformer_parameters",
    "vit_parameters",
    "xlnet_parameters",
]

TRANSFORMER_BASE = Sizes(d_model=512, n_heads=8, d_ff=2048, n_layers=6)
TRANSFORMER_BIG = Sizes(d_model=1024, n_heads=16, d_ff=4096, n_layers=6)
GPT_1 = Sizes(d_model=768, n_heads=12, d_ff=3072, n_layers=12)
GPT_2 = Sizes(d_model=1600, n_heads=25, d_ff=6400, n_layers=48)
GPT_3 = Sizes(d_model=12288, n_heads=96, d_ff=49152, n_layers=96)
BERT_BASE = Sizes(d_model=768, n_heads=12, d_ff=3072, n_layers=12)
BERT_LARGE = Sizes(d_model=1024, n_heads=16, d_ff=4096, n_layers=24)


def block_parameters(d_model: int, d_ff: int, n_attentions: int = 1) -> int:
    """Count the parameters of a block.

    Args:
        d_model: features of a token; the heads together have as many.
        d_ff: features inside the feed-forward network.
        n_attentions: 1 in an encoder or GPT; 2 with cross-attention.

    Returns:
        the number of weights, biases, gains and shifts, one norm for each attention and one for the network.

    Source: Vaswani et al. 2017, section 3.
    """
    attention = 4 * (d_model**2 + d_model)
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    norm = 2 * d_model
    return n_attentions * (attention + norm) + feed_forward + norm


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


def bert_parameters(n_tokens: int, T_max: int, d_model: int, n_layers: int, n_segments: int = 2) -> int:
    """Count the parameters of BERT, with its pooler and without the heads of its pre-training.

    Args:
        n_tokens: size of the vocabulary.
        T_max: positions.
        d_model: features of a token; the networks are four times as wide.
        n_layers: blocks.
        n_segments: sentences in a sequence.

    Returns:
        the number of parameters.

    Source: Devlin et al. 2019, section 3.
    """
    embeddings = (n_tokens + T_max + n_segments) * d_model + 2 * d_model
    pooler = d_model**2 + d_model
    return embeddings + n_layers * block_parameters(d_model, 4 * d_model) + pooler


def xlnet_parameters(n_tokens: int, d_model: int, n_layers: int) -> int:
    """Count the parameters of XLNet: positions are relative, with a fifth projection in each block and no position table.

    The five projections have no biases; queries have three, one each for content, distance and sentence, and each block has
    two vectors for "same sentence" and "other sentence".

    Args:
        n_tokens: size of the vocabulary.
        d_model: features of a token; the networks are four times as wide.
        n_layers: blocks.

    Returns:
        the number of parameters, with the one vector that stands for a masked token.

    Source: Yang et al. 2019, sections 2.3 to 2.5 (https://arxiv.org/abs/1906.08237).
    """
    attention = 5 * d_model**2 + 3 * d_model + 2 * d_model
    feed_forward = 8 * d_model**2 + 5 * d_model
    return (n_tokens + 1) * d_model + n_layers * (attention + feed_forward + 2 * 2 * d_model)


def transformer_parameters(n_tokens: int, sizes: Sizes) -> int:
    """Count the parameters of Vaswani's Transformer: one vocabulary of n_tokens, whose matrix is used three times.

    Args:
        n_tokens: size of the vocabulary, about 37,000 for English–German.
        sizes: of the model; n_layers in the encoder and as many in the decoder.

    Returns:
        the number of parameters; sinusoids have none.

    Source: Vaswani et al. 2017, section 3.4 and table 3.
    """
    encoder = sizes.n_layers * block_parameters(sizes.d_model, sizes.d_ff)
    decoder = sizes.n_layers * block_parameters(sizes.d_model, sizes.d_ff, n_attentions=2)
    return n_tokens * sizes.d_model + encoder + decoder


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

    Each block has four projections and a network of two layers, all six with biases, and two norms with gain and bias;
    one more norm follows the last block.

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
