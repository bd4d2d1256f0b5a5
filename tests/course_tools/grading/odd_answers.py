"""A right answer to exercise 04.1, in parts."""

NAME = "scaled_dot_product_attention"
HEAD = f"def {NAME}(q, k, v, mask=None):"
BODY = "    return attend(q @ k.mT / math.sqrt(k.shape[-1]), v, mask)"
