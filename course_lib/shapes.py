"""Names of tensor shapes, used in every signature of the library.

Axes: `B` batch, `T` time, `d` features, `n` hidden units, `q`/`k` queries and keys. A leading `*batch` stands for any
number of further axes (batch, heads), possibly none. The aliases are jaxtyping annotations (https://docs.kidger.site/jaxtyping):
free at run time, checked by beartype under pytest.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Queries = Float[Tensor, "*batch T_q d_q"]
Keys = Float[Tensor, "*batch T_k d_k"]
Values = Float[Tensor, "*batch T_k d_v"]
GroupKeys = Float[Tensor, "*groups T_k d_k"]
"""Keys with as many heads as the queries, or with fewer, which groups of queries share."""
GroupValues = Float[Tensor, "*groups T_k d_v"]
Scores = Float[Tensor, "*batch T_q T_k"]
Weights = Float[Tensor, "*batch T_q T_k"]
Context = Float[Tensor, "*batch T_q d_v"]
Mask = Bool[Tensor, "..."]
"""True = may attend. Any shape that broadcasts to the scores, (*batch, T_q, T_k)."""

Tokens = Int[Tensor, "B T"]
Lengths = Int[Tensor, "B"]
TokenFeatures = Float[Tensor, "B T d"]
Memory = Float[Tensor, "B T_k d_memory"]
States = Float[Tensor, "B T n"]
Image = Float[Tensor, "B C H W"]
Logits = Float[Tensor, "*batch n_classes"]
Nodes = Float[Tensor, "*batch N d"]
Edges = Int[Tensor, "2 E"]
"""Node edges[0, e] attends to node edges[1, e]: the entries at which the mask of a dense attention is True."""
Boxes = Float[Tensor, "*batch 4"]
"""Centre and size (x, y, w, h), or corners (x_1, y_1, x_2, y_2), in fractions of the image, or in pixels."""

__all__ = [
    "Boxes",
    "Context",
    "Edges",
    "GroupKeys",
    "GroupValues",
    "Image",
    "Keys",
    "Lengths",
    "Logits",
    "Mask",
    "Memory",
    "Nodes",
    "Queries",
    "Scores",
    "States",
    "TokenFeatures",
    "Tokens",
    "Values",
    "Weights",
]
