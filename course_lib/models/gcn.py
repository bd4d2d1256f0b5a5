"""A graph convolutional network: neighbours mixed by weights that depend only on the degrees. The baseline of lecture 15.

Kipf & Welling 2017, *Semi-Supervised Classification with Graph Convolutional Networks*, eqs. 2 and 9
(https://arxiv.org/abs/1609.02907); dropout, if asked for, acts on the input of each layer, as in the published code (rate 0.5
for citation networks, section 5.2):

    Z = Â ReLU(Â X W⁰) W¹        Â = D̃^-½ (A + I) D̃^-½
"""

from itertools import pairwise

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.primitives import gcn_weights, propagate, with_self_loops
from course_lib.shapes import Edges, Nodes

__all__ = ["GCN"]


class GCN(nn.Module):
    """Layers X ↦ Â X W with a ReLU between them."""

    def __init__(self, d_in: int, d_hidden: int, n_out: int, n_layers: int = 2, dropout: float = 0.0) -> None:
        """Set up the matrices.

        Args:
            d_in: features of a node.
            d_hidden: features of a hidden layer.
            n_out: outputs for each node, such as the logits of its classes.
            n_layers: number of layers, and so of the steps from which a node receives information.
            dropout: probability with which, in training, a feature of the input of each layer is set to 0.

        Raises:
            ValueError: there is no layer.
        """
        super().__init__()
        if n_layers < 1:
            raise ValueError(f"a network needs at least one layer, got n_layers = {n_layers}.")
        sizes = [d_in] + [d_hidden] * (n_layers - 1) + [n_out]
        layers = [nn.Linear(*pair, bias=False) for pair in pairwise(sizes)]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
        self.layers = nn.ModuleList(layers)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Nodes, edges: Edges) -> Float[Tensor, "*batch N n_out"]:
        """Return outputs (*batch, N, n_out) from x (*batch, N, d_in); each node adds its neighbours, weighted by Â."""
        edges = with_self_loops(edges, x.shape[-2])
        weights = gcn_weights(edges, x.shape[-2]).to(x.dtype)
        for i, layer in enumerate(self.layers):
            x = propagate(layer(self.dropout(x if i == 0 else F.relu(x))), edges, weights)
        return x
