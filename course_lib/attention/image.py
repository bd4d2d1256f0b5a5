"""Self-attention over the pixels of an image: the `AttentionLayer2d` of EE-559, deck 13.2.

Every pixel is a token that attends to all pixels; the result has the shape of the image:

    y = softmax(q kᵀ / √d_k) v        q = W_q x,  k = W_k x,  v = W_v x   at each pixel
"""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import AnyMechanism, Attended, ContextOnly
from course_lib.attention.dot_product import scaled_dot_product_attention
from course_lib.primitives.preconditions import of_tensors
from course_lib.shapes import Image

__all__ = ["AttentionLayer2d", "attention_over_image"]


@of_tensors
def attention_over_image(
    x: Image,
    W_q: Float[Tensor, "d_k C"],
    W_k: Float[Tensor, "d_k C"],
    W_v: Float[Tensor, "d_v C"],
) -> Float[Tensor, "B d_v H W"]:
    """Attend from every pixel of an image to every pixel of the same image.

    Args:
        x: images (B, C, H, W); H and W may differ.
        W_q: (d_k, C), the query projection, applied at each pixel.
        W_k: (d_k, C).
        W_v: (d_v, C).

    Returns:
        images (B, d_v, H, W): at each position the context of its pixel.

    Source: EE-559, deck 13.2, "Implementation example".
    """
    H, W = x.shape[-2:]
    pixels = rearrange(x, "B C H W -> B (H W) C")
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return rearrange(context, "B (H W) d_v -> B d_v H W", H=H, W=W)


class AttentionLayer2d(nn.Module):
    """Self-attention over pixels around any mechanism: owns W_q, W_k (d_k, C) and W_v (d_v, C), without biases."""

    def __init__(self, d_in: int, d_k: int, d_v: int, mechanism: AnyMechanism = scaled_dot_product_attention) -> None:
        """Set up the three projections of the d_in channels."""
        super().__init__()
        self.mechanism = mechanism
        self.W_q = nn.Linear(d_in, d_k, bias=False)
        self.W_k = nn.Linear(d_in, d_k, bias=False)
        self.W_v = nn.Linear(d_in, d_v, bias=False)

    @of_tensors
    def forward(self, x: Image) -> Attended | ContextOnly:
        """Attend over images (B, C, H, W); the context is an image (B, d_v, H, W), the weights are (B, H·W, H·W)."""
        H, W = x.shape[-2:]
        pixels = rearrange(x, "B C H W -> B (H W) C")
        attended = self.mechanism(self.W_q(pixels), self.W_k(pixels), self.W_v(pixels))
        return attended._replace(context=rearrange(attended.context, "B (H W) d_v -> B d_v H W", H=H, W=W))
