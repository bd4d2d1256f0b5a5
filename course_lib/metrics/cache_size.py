"""Bytes of a decoder's cache of keys and values: what a text costs while it is being written.

Each layer keeps a key and a value of d_k numbers for each token and each of its g heads of keys and values:

    multi-head       2 n_layers h d_k T          g = h, as many as heads of queries
    grouped queries  2 n_layers g d_k T          g = 1: multi-query
    a window         2 n_layers g d_k min(T, window)

Shazeer 2019, section 3 (https://arxiv.org/abs/1911.02150); Ainslie et al. 2023, section 2.2 (https://arxiv.org/abs/2305.13245);
of a window Jiang et al. 2023, section 2, "rolling buffer cache" (https://arxiv.org/abs/2310.06825).
"""

__all__ = ["cache_bytes"]


def cache_bytes(n_layers: int, n_groups: int, d_k: int, T: int, window: int | None = None, bytes_per_number: int = 2) -> int:
    """Count the bytes of the keys and values that a decoder keeps of one text.

    Args:
        n_layers: blocks, each with a cache of its own.
        n_groups: heads of keys and values in a layer; as many as heads of queries in multi-head attention, 1 in multi-query.
        d_k: features of a key, and of a value, of one head.
        T: tokens read so far.
        window: number of the last tokens that a layer keeps, as `window_of_tokens` lets it read them; None = all.
        bytes_per_number: 2 for float16 and bfloat16, 4 for float32.

    Returns:
        the number of bytes, an int; GPT-3's 2,048 tokens take 9.7 GB.

    Source: Shazeer 2019, section 3; Ainslie et al. 2023, section 2.2; Jiang et al. 2023, section 2.
    """
    n_kept = T if window is None else min(T, window)
    return 2 * n_layers * n_groups * d_k * n_kept * bytes_per_number
