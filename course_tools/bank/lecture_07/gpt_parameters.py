"""Exercise 07.5, gpt_parameters: what students answer, wrong and right."""

import math

from torch import nn

from course_lib.metrics import gpt_parameters
from course_tools.checks.comparisons import Failure, same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on
from course_tools.checks.outcome import Outcome

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Draw one block and write its shape beside each matrix and vector. How many matrices does attention have, and how "
        "many the network? Which have a bias, and how long is it? What comes before the first block, and what after the "
        "last?"
    ),
    (
        "Four groups: two tables of vectors, one a token and one a position; in every block four d × d matrices and two "
        "of the network, d → 4d → d, each with a bias as long as its output; two norms of 2 d each; the norms at the end. "
        "The heads divide the d features."
    ),
    (
        "Add up what one block holds: four matrices of attention, each with its bias; the two of the network, with "
        "biases of different lengths; two norms. Only this is multiplied by n_layers. The tables are as long as "
        "n_tokens and T_max; the last matrix is the table of tokens again, so it is counted already."
    ),
)


def _block(d):
    """Attention, network and two norms."""
    return 4 * (d**2 + d) + (8 * d**2 + 5 * d) + 4 * d


@wrong.detail
def counts_the_last_matrix_again(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You count a matrix from d_model back to the vocabulary. In GPT-2 that is the embedding itself, used a second time:
    the matrix is shared, and counted once."""
    ends = (n_tokens + T_max) * d_model + n_norms_at_the_end * 2 * d_model
    return ends + n_layers * _block(d_model) + n_tokens * d_model


@wrong.detail
def forgets_the_biases(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You count the matrices of a block and not the biases. All six have one: four of attention and two of the network."""
    block = 4 * d_model**2 + 8 * d_model**2 + 4 * d_model
    return (n_tokens + T_max) * d_model + n_layers * block + n_norms_at_the_end * 2 * d_model


@wrong.detail
def forgets_the_positions(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You leave out the positions, and T_max is never used. Sinusoids would cost nothing; GPT learns a vector for each
    position, and those are parameters too."""
    return n_tokens * d_model + n_layers * _block(d_model) + n_norms_at_the_end * 2 * d_model


@wrong.part
def forgets_the_norms(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You count no norm, neither in the blocks nor at the end. Each norm has a learned gain and shift for each feature."""
    return (n_tokens + T_max) * d_model + n_layers * (_block(d_model) - 4 * d_model)


@wrong.detail
def gives_a_norm_no_shift(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You give every norm d_model parameters, its gain. Each norm here has a shift as well, another d_model numbers."""
    block = _block(d_model) - 2 * d_model
    return (n_tokens + T_max) * d_model + n_layers * block + n_norms_at_the_end * d_model


@wrong.part
def stops_at_queries_keys_and_values(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You count three projections: queries, keys, values. A fourth matrix with its bias projects the merged heads."""
    block = _block(d_model) - (d_model**2 + d_model)
    return (n_tokens + T_max) * d_model + n_layers * block + n_norms_at_the_end * 2 * d_model


@wrong.part
def keeps_the_network_narrow(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """Your network has two matrices from d_model to d_model. Inside it is four times as wide as a token, and that is where
    two thirds of a block's parameters are."""
    block = 4 * (d_model**2 + d_model) + 2 * (d_model**2 + d_model) + 4 * d_model
    return (n_tokens + T_max) * d_model + n_layers * block + n_norms_at_the_end * 2 * d_model


@wrong.part
def forgets_the_way_back(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You count only the first layer of the network, from d to 4d. The second one maps back from 4d to d, a matrix of the
    same size with its own bias."""
    block = 4 * (d_model**2 + d_model) + (4 * d_model**2 + 4 * d_model) + 4 * d_model
    return (n_tokens + T_max) * d_model + n_layers * block + n_norms_at_the_end * 2 * d_model


@wrong.detail
def gives_both_layers_the_same_bias(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You give both layers of the network a bias of length d. A bias has the size of its layer's output, and the first
    layer has 4d outputs."""
    block = _block(d_model) - 3 * d_model
    return (n_tokens + T_max) * d_model + n_layers * block + n_norms_at_the_end * 2 * d_model


@wrong.detail
def gives_a_block_one_norm(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You count one norm a block. There are two, one for attention and one for the network, each with its own gain and
    shift."""
    block = _block(d_model) - 2 * d_model
    return (n_tokens + T_max) * d_model + n_layers * block + n_norms_at_the_end * 2 * d_model


@wrong.case
def always_closes_with_one_norm(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You always add one norm at the end, and never use `n_norms_at_the_end`. GPT-1 has none there, so your count for it is
    2 · d_model too high."""
    return (n_tokens + T_max) * d_model + n_layers * _block(d_model) + 2 * d_model


@wrong.part
def adds_a_look_at_an_encoder(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You count a second attention with its norm in each block, as in the decoder of a translator. GPT has no encoder; its
    blocks have self-attention only."""
    block = _block(d_model) + 4 * (d_model**2 + d_model) + 2 * d_model
    return (n_tokens + T_max) * d_model + n_layers * block + n_norms_at_the_end * 2 * d_model


@wrong.idea
def counts_one_block(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You count one block, whatever n_layers is. Each block has its own parameters."""
    return gpt_parameters(n_tokens, T_max, d_model, 1, n_norms_at_the_end)


@wrong.detail
def forgets_the_bias_of_the_last_projection(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You give queries, keys and values a bias, but not the output projection. All four have one."""
    return gpt_parameters(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end) - n_layers * d_model


@wrong.detail
def gives_the_last_norm_no_shift(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You give the norm at the end a gain alone. It has a bias too, as all others."""
    return gpt_parameters(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end) - n_norms_at_the_end * d_model


@wrong.case
def counts_one_norm_at_most(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You count one norm at the end if there are any. There may be several: multiply by their number."""
    return gpt_parameters(n_tokens, T_max, d_model, n_layers, min(n_norms_at_the_end, 1))


@wrong.detail
def gives_the_logits_a_bias(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """You add a bias for the logits. GPT's last layer is the table of the tokens once more, and nothing else."""
    return gpt_parameters(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end) + n_tokens


@right
def by_layers_of_torch(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """One of torch's own layers counted, which has the same weights as a block, and all the rest beside it."""
    layer = nn.TransformerEncoderLayer(d_model, nhead=1, dim_feedforward=4 * d_model, device="meta")
    of_a_block = sum(math.prod(p.shape) for p in layer.parameters())
    vectors = n_tokens + T_max + 2 * n_norms_at_the_end
    return vectors * d_model + n_layers * of_a_block


@right
def by_a_list_of_shapes(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """Every table, matrix and vector written down as a shape, and their sizes added."""
    layers = [(d_model, d_model)] * 4 + [(4 * d_model, d_model), (d_model, 4 * d_model)]
    block = [*layers, *((rows,) for rows, _ in layers), *[(2, d_model)] * 2]
    shapes = [(n_tokens, d_model), (T_max, d_model), *block * n_layers, *[(2, d_model)] * n_norms_at_the_end]
    return sum(map(math.prod, shapes))


@right
def as_a_polynomial(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    """Ordered by powers of d_model: what stands at the square, and what at the first power, by Horner's rule."""
    square, first = 12 * n_layers, n_tokens + T_max + 13 * n_layers + 2 * n_norms_at_the_end
    return (square * d_model + first) * d_model


@stranger
def count_in_float(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    return float(gpt_parameters(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end))


@stranger
def count_a_wider_network(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    return gpt_parameters(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end) + n_layers * 8 * d_model**2


@stranger
def count_positions_in_every_layer(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    return gpt_parameters(n_tokens, T_max * (n_layers + 1), d_model, n_layers, n_norms_at_the_end)


@stranger(makes=[forgets_the_biases])
def count_without_any_bias(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    return (n_tokens + T_max) * d_model + n_layers * (12 * d_model**2 + 4 * d_model) + 2 * n_norms_at_the_end * d_model


@stranger(makes=[forgets_the_biases, forgets_the_positions, forgets_the_norms])
def count_matrices_alone(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    return n_tokens * d_model + n_layers * 12 * d_model**2


def _sizes(draw: Draw, n_layers: int, *n_norms: int) -> Call:
    n_tokens, T_max, d_model = draw.sizes(3)
    return 10 * n_tokens, 4 * T_max, d_model, n_layers, *n_norms


def _block_alone(draw: Draw, n_layers: int) -> Call:
    """Blocks and the norm at the end, with no token and no position."""
    return 0, 0, draw.sizes(1)[0], n_layers


def _same_to_a_percent(expected: Outcome, got: Outcome) -> Failure | None:
    """Hold where the number is right but for what is small."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    want, have = expected.results[0], got.results[0]
    near = abs(have - want) <= want / 100
    return None if near else Failure("The result is wrong.", f"Expected about {want:,}.")


exercise = Exercise(
    id="07.5",
    title="How many parameters",
    reference=gpt_parameters,
    extra=True,
    properties=(
        runs_on(lambda draw: [_sizes(draw, 2)]),
        has_shape("One number.", lambda draw: [_sizes(draw, 2)]),
        Property("tables", "Without blocks there are two tables, for tokens and positions.", lambda draw: [_sizes(draw, 0, 0)]),
        Property(
            "end",
            "Each norm at the end has a gain and a bias.",
            lambda draw: [_sizes(draw, 0, 1), _sizes(draw, 0, 3), _sizes(draw, 0)],
            needs=("tables",),
        ),
        Property(
            "matrices",
            "Up to a percent, a wide block is its matrices: four projections, and two of the network.",
            lambda draw: [(0, 0, 1_000 * draw.sizes(1)[0], 1)],
            _same_to_a_percent,
            points=2,
        ),
        Property(
            "block",
            "Exactly: the matrices, six biases and two norms, and one norm at the end.",
            lambda draw: [_block_alone(draw, 1)],
            points=3,
            needs=("matrices",),
        ),
        Property("layers", "Every block has its own weights.", lambda draw: [_block_alone(draw, 5)], needs=("block",)),
        Property(
            "published",
            "GPT-1, and GPT-2 in its four sizes.",
            lambda draw: [
                (40_478, 512, 768, 12, 0),
                *(
                    (50_257, 1_024, d_model, n_layers)
                    for d_model, n_layers in ((768, 12), (1_024, 24), (1_280, 36), (1_600, 48))
                ),
            ],
            points=2,
            needs=("end", "layers"),
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
