"""Figures take arrays of any kind, fit the page, label their axes, and draw any token without a warning."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from course_tools.notebook import plots
from course_tools.notebook.show import MAX_HEIGHT, MAX_WIDTH, png

TOKENS = ["été", "$x$", "a$b$c", "\\frac{", "日", " ", "\n"]
WEIGHTS = torch.rand(7, 5, generator=torch.Generator().manual_seed(0)).softmax(-1)
FIGURES = {
    "attention_map": lambda: plots.attention_map(WEIGHTS, TOKENS, TOKENS[:5], "Où $\\bad"),
    "attention_maps": lambda: plots.attention_maps({f"head {h}": WEIGHTS for h in range(4)}, TOKENS, TOKENS[:5]),
    "score_maps": lambda: plots.score_maps({"scores": WEIGHTS - 0.2}),
    "curves": lambda: plots.curves({"a": (range(1, 9), range(1, 9)), "b": ([1, 8], [2.0, 3.0])}, "n", "cost", log="xy"),
    "seeds": lambda: plots.seeds({"attention": [0.9, 1.0], "mean": 0.3}, "accuracy", across={"chance": 0.1}),
    "arrows": lambda: plots.pictures({"a": np.zeros((7, 5, 3))}, {"a": (1, 2)}, {"a": WEIGHTS}, strongest=3),
    "pictures": lambda: plots.pictures({"photo": np.zeros((4, 6, 3)), "map": WEIGHTS}, {"photo": (1, 2)}),
}


@pytest.mark.parametrize("values", [[2.297, 2.305, 2.30], [0.693, 0.694, 0.692], [-5.0, -5.01, -5.0]])
def test_noise_on_a_flat_curve_does_not_fill_the_figure(values):
    low, high = plots.curves({"flat": ([1, 2, 3], values)}, "update", "loss").axes[0].get_ylim()
    assert low < min(values) < max(values) < high
    assert high - low >= 0.09 * max(map(abs, values))
    low, high = plots.curves({"falls": ([1, 2, 3], [2.0, 1.0, 0.5])}, "update", "loss").axes[0].get_ylim()
    assert high - low < 1.8


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_fits_the_page_and_draws_without_a_warning(name):
    figure = FIGURES[name]()
    assert isinstance(figure, Figure)
    assert tuple(figure.get_size_inches()) <= (MAX_WIDTH, MAX_HEIGHT)
    assert png(figure).startswith(b"\x89PNG")


def test_weights_are_drawn_from_zero_to_one_whatever_their_range():
    figure = plots.attention_map(WEIGHTS / 10)
    image = figure.axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax, image.cmap.name) == (0.0, 1.0, "viridis")
    assert np.allclose(image.get_array(), WEIGHTS / 10)


def outlines(ax):
    return [(patch.get_y() + 0.5, patch.get_x() + 0.5) for patch in ax.patches]


def test_the_given_cells_are_outlined_in_every_map_and_no_others():
    right = torch.zeros(7, 5, dtype=torch.bool)
    right[1, 4] = right[6, 0] = True
    one = plots.attention_map(WEIGHTS, outlined=right)
    two = plots.attention_maps({"a": WEIGHTS, "b": WEIGHTS}, outlined=right.int())
    assert [outlines(ax) for ax in (one.axes[0], *two.axes[:2])] == [[(1, 4), (6, 0)]] * 3
    assert [outlines(ax) for ax in plots.attention_map(WEIGHTS).axes] == [[], []]


def test_outlined_cells_must_have_the_shape_of_the_weights():
    with pytest.raises(ValueError, match=r"shape \(5, 7\), and the weights \(7, 5\)"):
        plots.attention_map(WEIGHTS, outlined=torch.ones(5, 7))


def test_scores_are_centred_at_zero():
    image = plots.score_maps({"a": torch.tensor([[-3.0, 1.0]])}).axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax) == (-3.0, 3.0)


def test_axes_carry_tokens_and_names():
    ax = plots.attention_map(WEIGHTS, TOKENS, list("abcde"), x="source", y="target").axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["été", "$x$", "a$b$c", "\\frac{", "□", "␣", "↵"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("source", "target")


def test_labels_must_be_as_many_as_places():
    with pytest.raises(ValueError, match="4 labels for 5 positions"):
        plots.attention_map(WEIGHTS, TOKENS, list("abcd"))


def test_lines_differ_in_colour_and_in_marker():
    lines = plots.curves({name: ([0, 1], [0, 1]) for name in "abcdef"}, "x", "y").axes[0].lines
    assert len({to_rgb(line.get_color()) for line in lines}) == 6
    assert len({line.get_marker() for line in lines}) == 6


def test_every_seed_is_drawn():
    lines = plots.seeds({"a": [0.1, 0.5, 0.9], "b": [0.2]}, "accuracy").axes[0].lines
    assert [list(line.get_ydata()) for line in lines] == [[0.1, 0.5, 0.9], [0.2]]


def test_long_names_of_groups_are_broken_into_lines():
    ax = plots.seeds({name: [0.5] for name in ("look-up: attention", "GRU", "été", "$x$", "reversal: GRU")}, "y").axes[0]
    texts = [label.get_text() for label in ax.get_xticklabels()]
    assert texts == ["look-up:\nattention", "GRU", "été", "$x$", "reversal: GRU"]


def test_a_logarithmic_axis_names_the_places_measured():
    ax = plots.curves({"a": ([64, 128, 1024], [1, 2, 3])}, "n", "y", log="x").axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["64", "128", "1024"]


@pytest.mark.parametrize(
    ("places", "named"),
    [
        ([1_702, 1_750, 24_058], ["2000", "5000", "10000", "20000"]),
        ([3, 3.1, 2_000], ["10", "100", "1000"]),
        ([80_000, 81_000, 1_200_000], ["100,000", "200,000", "500,000", "1,000,000"]),
        (range(1, 12), []),
    ],
)
def test_round_numbers_are_named_where_places_are_too_near_or_many(places, named):
    ax = plots.curves({"a": (places, places)}, "n", "y", log="x").axes[0]
    texts = [label.get_text() for label in ax.get_xticklabels()]
    assert texts == named if named else str(places[-1]) not in texts


def test_arrows_point_to_the_strongest_weights():
    weights = torch.zeros(7, 5)
    weights[6, 4], weights[0, 3], weights[2, 1] = 0.6, 0.3, 0.1
    ax = plots.pictures({"a": np.zeros((7, 5, 3))}, {"a": (1, 2)}, {"a": weights}, strongest=2).axes[0]
    assert {arrow.xy for arrow in ax.texts} == {(4, 6), (3, 0)}


def test_maps_can_share_one_scale():
    ends = [ax.images[0].get_clim() for ax in plots.pictures({"a": WEIGHTS, "b": WEIGHTS / 2}, most=0.9).axes[:2]]
    assert ends == [(0.0, 0.9)] * 2
    assert plots.pictures({"b": WEIGHTS / 2}).axes[0].images[0].get_clim() == (0.0, WEIGHTS.max() / 2)


def test_a_tensor_in_a_graph_can_be_drawn():
    plots.attention_map(WEIGHTS.clone().requires_grad_() * 1.0)


def test_the_sentence_names_where_each_query_looks_most():
    sentence = plots.describe([[0.1, 0.9], [0.75, 0.25]], ["il", "est"], ["he", "is"])
    assert sentence == "Attention map of 2 queries by 2 keys. Largest weights: il at is (0.90), est at he (0.75)."


def test_equal_names_are_numbered_in_the_sentence():
    sentence = plots.describe([[0.9, 0.1], [0.25, 0.75]], ["0", "1"], ["7", "7"])
    assert sentence.endswith("Largest weights: 0 at column 1 '7' (0.90), 1 at column 2 '7' (0.75).")


def test_a_long_sentence_is_cut_and_says_so():
    assert plots.describe(torch.eye(9)).endswith("query 5 at key 5 (1.00), and 3 more rows.")


FALLING, ZIGZAG = [4 - i for i in range(5)], [i % 2 for i in range(60)]


@pytest.mark.parametrize(
    ("lines", "below"),
    [
        ({f"curve {i}": (range(5), FALLING) for i in range(5)}, False),
        ({f"curve {i}": (range(5), FALLING) for i in range(6)}, True),
        ({f"curve {i}": (range(5), FALLING) for i in range(12)}, True),
        ({"a curve that leaves no corner free": (range(60), ZIGZAG)}, True),
    ],
)
def test_a_legend_that_is_long_or_would_hide_a_curve_is_below_the_axes(lines, below):
    figure = plots.curves(lines, x="step", y="loss")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    (legend,) = figure.legends or [ax.get_legend()]
    assert bool(legend.get_window_extent().y1 <= ax.xaxis.label.get_window_extent().y0) is below
    assert ax.get_window_extent().height > 200
