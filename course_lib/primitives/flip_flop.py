"""One LSTM unit set by hand as a flip-flop: it stores the last marked bit over any number of others.

The gates are those of Hochreiter & Schmidhuber 1997 (https://doi.org/10.1162/neco.1997.9.8.1735) with the forget gate of Gers
et al. 2000. A mark opens the input gate and closes the forget gate: i = 1, f = 0; without a mark it is the other way round.
"""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["flip_flop_weights"]


def flip_flop_weights(d: int) -> tuple[Float[Tensor, "4 d"], Float[Tensor, "4 1"], Float[Tensor, "4"]]:
    """Set W, U and b of one LSTM unit by hand, such that it keeps the last marked bit.

    An input is d numbers: a bit, -1 or 1; a mark, 1 if the bit is to be stored and else 0; and d - 2 numbers of noise, each
    from N(0, 1).

    Args:
        d: size of an input, at least 2.

    Returns:
        W (4, d), U (4, 1) and b (4,), rows in torch's order i, f, g, o. From the first mark on, the state h has the sign of the
        last marked bit, and its size is above ½.

    Source: the gates of Hochreiter & Schmidhuber 1997 and Gers et al. 2000.
    """
    W, b = torch.zeros(4, d), torch.tensor([-10.0, 10.0, 0.0, 10.0])
    W[0, 1], W[1, 1], W[2, 0] = 20.0, -20.0, 10.0
    return W, torch.zeros(4, 1), b
