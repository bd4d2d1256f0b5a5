"""Exercise 10.5, local_attention_cost: what students answer, wrong and right."""

import math

import torch
from torch import nn

from course_lib.metrics import OperationCount, local_attention_cost
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Which parameters does the layer have, and which of them grow with the window? Then one query: how many "
        "multiplications does its product with one key take, and how many keys are there?"
    ),
    (
        "Parameters: three matrices; `size` vectors for the rows of the window and `size` for its columns, with d_out / 2 "
        "features each. Multiply-adds: W_q acts on n = ⌈H / stride⌉ · ⌈W / stride⌉ pixels, W_k and W_v on all H · W. Each "
        "query is multiplied with size² keys and with the vectors of rows and columns, and its weights with size² values."
    ),
    (
        "Count three times: the projections, of which the queries are made at n positions and keys and values at all H · "
        "W; the two products in the windows, over size² positions each; and the relative logits, size for the rows and "
        "size for the columns with half of the features each."
    ),
)


def _cost(
    d_in, d_out, size, H, W, stride, *, matrices=3, vectors=None, n_queries=None, projected=None, products=2, n_keys=None
):
    """Count, with some of the numbers replaced."""
    n = -(-H // stride) * -(-W // stride) if n_queries is None else n_queries
    offsets = (size if vectors is None else vectors) * d_out
    projections = (n + 2 * H * W if projected is None else projected) * d_in * d_out
    window = products * (size**2 if n_keys is None else n_keys) * d_out
    return OperationCount(matrices * d_in * d_out + offsets, projections + n * (window + offsets))


@wrong.case
def counts_every_operation(d_in, d_out, size, H, W, stride=1):
    """You count multiplications and additions separately. A multiply-add counts as one: yours are twice as many."""
    parameters, work = _cost(d_in, d_out, size, H, W, stride)
    return OperationCount(parameters, 2 * work)


@wrong.detail
def gives_each_place_a_vector(d_in, d_out, size, H, W, stride=1):
    """You count a vector for each of the size² positions of a window. A position is encoded by the vector of its row and
    that of its column: size of each, with half the features."""
    return _cost(d_in, d_out, size, H, W, stride, vectors=size**2)


@wrong.detail
def gives_both_all_features(d_in, d_out, size, H, W, stride=1):
    """You count rows and columns with d_out features each. Rows have half of the features and columns the other half."""
    return _cost(d_in, d_out, size, H, W, stride, vectors=2 * size)


@wrong.part
def forgets_the_places(d_in, d_out, size, H, W, stride=1):
    """You leave out the vectors of rows and columns. They are parameters, and every query is multiplied with them."""
    return _cost(d_in, d_out, size, H, W, stride, vectors=0)


@wrong.detail
def forgets_the_work_of_the_places(d_in, d_out, size, H, W, stride=1):
    """You count the vectors of rows and columns as parameters, and no work with them. Each query is multiplied with all of
    them, size · d_out multiply-adds."""
    parameters, work = _cost(d_in, d_out, size, H, W, stride)
    return OperationCount(parameters, work - -(-H // stride) * -(-W // stride) * size * d_out)


@wrong.detail
def multiplies_with_each_place(d_in, d_out, size, H, W, stride=1):
    """You multiply each query by a vector for each of the size² positions. There are size rows and size columns of d_out /
    2 features: size · d_out multiply-adds."""
    parameters, _ = _cost(d_in, d_out, size, H, W, stride)
    _, work = _cost(d_in, d_out, size, H, W, stride, vectors=size**2)
    return OperationCount(parameters, work)


@wrong.part
def counts_one_product(d_in, d_out, size, H, W, stride=1):
    """You count one product in the window. There are two: q with each key for the scores, and each weight with its value."""
    return _cost(d_in, d_out, size, H, W, stride, products=1)


@wrong.part
def projects_the_output(d_in, d_out, size, H, W, stride=1):
    """You count an output matrix W_o, as multi-head attention has one. This layer ends with the context: three matrices, of
    queries, keys and values."""
    parameters, work = _cost(d_in, d_out, size, H, W, stride, matrices=3)
    n = -(-H // stride) * -(-W // stride)
    return OperationCount(parameters + d_out * d_out, work + n * d_out * d_out)


@wrong.idea
def looks_everywhere(d_in, d_out, size, H, W, stride=1):
    """Each of your queries attends to all H · W pixels. That is global attention; here it attends to a window of size²
    positions."""
    return _cost(d_in, d_out, size, H, W, stride, n_keys=H * W)


@wrong.idea
def looks_along_one_side(d_in, d_out, size, H, W, stride=1):
    """You count `size` positions in a window. `size` is its side: it has size² positions."""
    return _cost(d_in, d_out, size, H, W, stride, n_keys=size)


@wrong.detail
def ignores_the_stride(d_in, d_out, size, H, W, stride=1):
    """You count a query for every pixel. With a stride there are ⌈H / stride⌉ · ⌈W / stride⌉, with the keys and values of
    all pixels."""
    return _cost(d_in, d_out, size, H, W, 1)


@wrong.case
def rounds_down(d_in, d_out, size, H, W, stride=1):
    """You round down when you divide by the stride. The first query is at the first pixel, so the remainder has one more:
    ⌈H / stride⌉."""
    return _cost(d_in, d_out, size, H, W, stride, n_queries=(H // stride) * (W // stride))


@wrong.detail
def thins_out_the_keys(d_in, d_out, size, H, W, stride=1):
    """You project keys and values at every stride-th pixel only. There are fewer queries, but every pixel needs a key and a
    value."""
    n = -(-H // stride) * -(-W // stride)
    return _cost(d_in, d_out, size, H, W, stride, projected=3 * n)


@wrong.idea
def projects_in_every_window(d_in, d_out, size, H, W, stride=1):
    """You count size² projections a pixel, as for a convolution. A key is computed once for each pixel and used in all
    windows that contain it."""
    n = -(-H // stride) * -(-W // stride)
    return _cost(d_in, d_out, size, H, W, stride, projected=n + 2 * n * size**2)


@wrong.detail
def projects_a_query_for_every_pixel(d_in, d_out, size, H, W, stride=1):
    """You project queries at every pixel. With a stride only ⌈H / stride⌉ · ⌈W / stride⌉ pixels are queries; every pixel needs
    its key and its value."""
    found = _cost(d_in, d_out, size, H, W, stride)
    n_queries = -(-H // stride) * -(-W // stride)
    return OperationCount(found[0], found[1] + (H * W - n_queries) * d_in * d_out)


@right
def layer_by_layer(d_in, d_out, size, H, W, stride=1):
    """The layers built on the meta device and counted; the work as a sum over all that is computed."""
    with torch.device("meta"):
        projections = nn.ModuleList(nn.Linear(d_in, d_out, bias=False) for _ in "qkv")
        parameters = sum(p.numel() for p in projections.parameters()) + torch.empty(size, d_out).numel()
    n_queries, n_pixels = len(range(0, H, stride)) * len(range(0, W, stride)), H * W
    work = [n * projections[0].weight.numel() for n in (n_queries, n_pixels, n_pixels)]
    work += [n_queries * places * d_out for places in (size * size, size * size, size)]
    return OperationCount(parameters, sum(work))


@right
def pixel_by_pixel(d_in, d_out, size, H, W, stride=1):
    """Every pixel pays for its key and its value, and where it asks for a query, two products in the window, and its
    positions."""
    work = 0
    for row in range(H):
        for column in range(W):
            work += 2 * d_in * d_out
            if row % stride == 0 and column % stride == 0:
                work += d_in * d_out + (2 * size + 1) * size * d_out
    return d_out * (3 * d_in + size), work


@right
def everything_over_d_out(d_in, d_out, size, H, W, stride=1):
    """All is a multiple of d_out: what one feature costs, times that."""
    n = math.prod((side + stride - 1) // stride for side in (H, W))
    return OperationCount((3 * d_in + size) * d_out, (2 * H * W * d_in + n * (d_in + size + 2 * size**2)) * d_out)


@stranger
def cost_with_biases(d_in, d_out, size, H, W, stride=1):
    parameters, work = local_attention_cost(d_in, d_out, size, H, W, stride)
    return OperationCount(parameters + 3 * d_out, work)


@stranger
def cost_of_one_pixel(d_in, d_out, size, H, W, stride=1):
    parameters, work = local_attention_cost(d_in, d_out, size, H, W, stride)
    return OperationCount(parameters, work // (H * W))


@stranger
def cost_of_two_matrices(d_in, d_out, size, H, W, stride=1):
    parameters, work = local_attention_cost(d_in, d_out, size, H, W, stride)
    return OperationCount(parameters - d_in * d_out, work - H * W * d_in * d_out)


@stranger(makes=[counts_every_operation, forgets_the_places])
def cost_doubled_without_places(d_in, d_out, size, H, W, stride=1):
    n_queries = -(-H // stride) * -(-W // stride)
    parameters, work = local_attention_cost(d_in, d_out, size, H, W, stride)
    return OperationCount(parameters - size * d_out, 2 * (work - n_queries * size * d_out))


def _layer(draw: Draw, size: int, stride: int = 1) -> Call:
    """Sizes of which no two are equal."""
    d_in, d_out, H, W = draw.sizes(4)
    return 7 * d_in, 2 * d_out, size, 3 * H, 3 * W + 1, stride


def _layers(draw: Draw) -> list[Call]:
    return [_layer(draw, 1), _layer(draw, 3), _layer(draw, 7)]


exercise = Exercise(
    id="10.5",
    title="The cost of local attention",
    extra=True,
    reference=local_attention_cost,
    properties=(
        runs_on(lambda draw: [_layer(draw, 3)]),
        has_shape("Two integers.", lambda draw: [_layer(draw, 3), _layer(draw, 3, 2)]),
        Property(
            "parameters",
            "Three matrices, and vectors for the rows and columns of a window.",
            lambda draw: [*_layers(draw), _layer(draw, 5, 2)],
            right_result(0),
            points=3,
        ),
        Property(
            "work",
            "Projections of all pixels, two products in each window, and one with the vectors of rows and columns.",
            _layers,
            right_result(1),
            points=3,
        ),
        Property(
            "stride",
            "There are ⌈H / stride⌉ · ⌈W / stride⌉ queries; keys and values are those of all pixels.",
            lambda draw: [(3, 2, 3, 5, 7, 2), (2, 6, 5, 11, 7, 3), _layer(draw, 3, 4)],
            points=2,
            needs=("parameters", "work"),
        ),
        Property(
            "published",
            "The layers of a ResNet-50 with windows of 7 × 7.",
            lambda draw: [(64, 64, 7, 56, 56), (128, 128, 7, 56, 56, 2), (512, 512, 7, 7, 7)],
            needs=("parameters", "work"),
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
