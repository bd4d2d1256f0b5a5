"""Embeddings in two dimensions, with the label of each point as its marker: arrays in, figure out."""

from collections.abc import Mapping

import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from course_tools.notebook.legible import Numbers, in_the_font, to_array


def clouds(embeddings: Mapping[str, Numbers], labels: Numbers) -> Figure:
    """Draw embeddings along their first two principal axes, in up to three panels side by side.

    Every point is the numeral of its label, so that the figure can be read without distinguishing ten colours.

    Args:
        embeddings: title -> (n, d), such as one encoder at several steps of its training.
        labels: (n,), whole numbers from 0 to 9, the same for all panels.

    Raises:
        ValueError: there are more than three panels, or the numbers of labels and points differ.
    """
    kinds = to_array(labels)
    if not 1 <= len(embeddings) <= 3 or any(len(to_array(points)) != len(kinds) for points in embeddings.values()):
        raise ValueError(f"give one to three panels of {len(kinds)} points each, one for each label.")
    figure = Figure(figsize=(6.0, 2.6), layout="constrained")
    palette = sns.color_palette("colorblind", 10)
    palette[8] = (0.15, 0.15, 0.15)  # its yellow is too pale for a thin numeral on white
    for ax, (title, points) in zip(figure.subplots(1, len(embeddings), squeeze=False)[0], embeddings.items(), strict=True):
        places = _widest(to_array(points))
        for kind in np.unique(kinds):
            own = places[kinds == kind]
            ax.scatter(own[:, 0], own[:, 1], s=22, color=[palette[kind]], marker=f"${kind}$", linewidths=0.4)
        ax.set_title(in_the_font(title), parse_math=False, fontsize=10)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.margins(0.04)
    return figure


def _widest(points: np.ndarray) -> np.ndarray:
    """Project points (n, d) onto their first two principal axes, (n, 2)."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    places = centred @ axes[:2].T
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
