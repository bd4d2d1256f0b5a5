"""A key-value cache in pages: texts of any length share one memory, and a common beginning is stored once.

Kwon et al. 2023, sections 4.1 to 4.4 (https://arxiv.org/abs/2309.06180). A contiguous cache reserves room for the longest text
that may come. Here, position t of a text lies in slot t mod P of its page number ⌊t / P⌋, and a table lists the text's pages,
which may lie anywhere:

    K_t = keys[table[⌊t / P⌋], :, t mod P]

At most P - 1 slots of a text are unused. A page may belong to several texts; it is copied when one of them writes into it.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.multihead import KeysValues

__all__ = ["PageTable", "PagedCache"]


class PageTable(NamedTuple):
    """The pages of one text, in its order, and its number of positions. What has extended or freed a table has used it up."""

    pages: tuple[int, ...] = ()
    length: int = 0


class PagedCache:
    """The pages of many texts, of one layer.

    Args:
        n_pages: pages, the memory of all texts together.
        size: positions in a page, P.
        n_heads: heads that have keys and values of their own.
        d_k: features of a key.
        d_v: features of a value; by default d_k.
        dtype: of keys and values.
        device: of the pages.

    Raises:
        ValueError: n_pages or size is below 1.

    Source: Kwon et al. 2023, section 4.2; sharing and copying, section 4.4.
    """

    def __init__(
        self,
        n_pages: int,
        size: int,
        n_heads: int,
        d_k: int,
        d_v: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        if min(n_pages, size) < 1:
            raise ValueError(f"a cache needs a page, and a page a position, got n_pages = {n_pages} and size = {size}.")
        self.size = size
        self.keys = torch.zeros(n_pages, n_heads, size, d_k, dtype=dtype, device=device)
        self.values = torch.zeros(n_pages, n_heads, size, d_k if d_v is None else d_v, dtype=dtype, device=device)
        self._texts = [0] * n_pages
        """How many texts each page belongs to."""

    @property
    def n_free(self) -> int:
        """The number of pages that belong to no text."""
        return self._texts.count(0)

    @torch.no_grad()
    def extend(self, table: PageTable, k: Float[Tensor, "h T d_k"], v: Float[Tensor, "h T d_v"]) -> PageTable:
        """Write the keys and values of T more positions of a text.

        Args:
            table: of the text, `PageTable()` for a new one.
            k: keys (h, T, d_k).
            v: values (h, T, d_v).

        Returns:
            the table with which the text goes on.

        Raises:
            ValueError: k or v does not fit the pages.
            RuntimeError: too few pages are free; nothing is changed.
        """
        T, (n_heads, _, d_k), d_v = k.shape[-2], self.keys.shape[1:], self.values.shape[-1]
        if k.shape != (n_heads, T, d_k) or v.shape != (n_heads, T, d_v):
            raise ValueError(
                f"keys are ({n_heads}, T, {d_k}) and values ({n_heads}, T, {d_v}), got {tuple(k.shape)} and {tuple(v.shape)}."
            )
        pages, length = list(table.pages), table.length
        copies = T > 0 and length % self.size > 0 and self._texts[pages[-1]] > 1
        n_new = -(-(length + T) // self.size) - len(pages) + copies
        if n_new > self.n_free:
            raise RuntimeError(f"new pages for {T} more positions: {n_new} needed, {self.n_free} free. Free a text first.")
        new = [page for page, n in enumerate(self._texts) if n == 0][:n_new]
        if copies:
            shared, pages[-1] = pages[-1], new.pop(0)
            self.keys[pages[-1]], self.values[pages[-1]] = self.keys[shared], self.values[shared]
            self._texts[shared] -= 1
            self._texts[pages[-1]] = 1
        for page in new:
            self._texts[page] = 1
        pages += new
        at = torch.arange(length, length + T, device=self.keys.device)
        where = torch.tensor(pages, dtype=torch.long, device=at.device)[at // self.size], slice(None), at % self.size
        self.keys[where], self.values[where] = k.transpose(0, 1), v.transpose(0, 1)
        return PageTable(tuple(pages), length + T)

    def shared(self, table: PageTable) -> PageTable:
        """Return the table of another text that begins with all of this one; nothing is copied."""
        for page in table.pages:
            self._texts[page] += 1
        return PageTable(*table)

    def free(self, table: PageTable) -> None:
        """Give back the pages of a text, except those that other texts share."""
        for page in table.pages:
            self._texts[page] -= 1

    def read(self, table: PageTable) -> KeysValues:
        """Gather the keys (h, T, d_k) and values (h, T, d_v) of a text, as a contiguous cache would hold them."""
        pages = torch.tensor(table.pages, dtype=torch.long, device=self.keys.device)
        gathered = (x[pages].transpose(0, 1).flatten(1, 2)[:, : table.length] for x in (self.keys, self.values))
        return KeysValues(*gathered)
