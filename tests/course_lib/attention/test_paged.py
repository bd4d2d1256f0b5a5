"""A paged cache holds what a contiguous one holds, in as many pages as its texts need."""

import pytest
import torch

from course_lib.attention import KeysValues, PagedCache, PageTable, scaled_dot_product_attention

h, d_k, d_v, P = 2, 3, 5, 4


def drawn(T):
    return KeysValues(torch.randn(h, T, d_k), torch.randn(h, T, d_v))


def cache(n_pages=8):
    return PagedCache(n_pages, P, h, d_k, d_v)


def equal(pages, table, expected):
    assert all(map(torch.equal, pages.read(table), expected))


def test_texts_that_grow_in_turn_are_what_contiguous_caches_hold():
    """Their pages interleave; attention from the gathered pages is attention from the contiguous cache."""
    torch.manual_seed(0)
    pages, tables, caches = cache(), [PageTable(), PageTable()], [drawn(0), drawn(0)]
    for T in (3, 1, 0, 6, 1):
        for i in range(2):
            more = drawn(T)
            tables[i], caches[i] = pages.extend(tables[i], *more), caches[i].followed_by(more)
            equal(pages, tables[i], caches[i])
    assert [table.length for table in tables] == [11, 11]
    assert tables[0].pages == (0, 2, 3)
    assert pages.n_free == 8 - 2 * 3
    q = torch.randn(h, 1, d_k)
    contexts = [scaled_dot_product_attention(q, *each).context for each in (pages.read(tables[1]), caches[1])]
    assert torch.equal(*contexts)


def test_a_common_beginning_is_stored_once_and_copied_where_it_is_written():
    """Six positions in two pages, shared by three texts: the first page stays shared, of the second each text makes its own."""
    torch.manual_seed(0)
    pages, beginning = cache(), drawn(6)
    tables = [pages.extend(PageTable(), *beginning)]
    tables += [pages.shared(tables[0]) for _ in range(2)]
    assert pages.n_free == 6
    more = [drawn(1) for _ in tables]
    tables = [pages.extend(table, *each) for table, each in zip(tables, more, strict=True)]
    for table, each in zip(tables, more, strict=True):
        equal(pages, table, beginning.followed_by(each))
    assert len({table.pages[0] for table in tables}) == 1
    assert len({table.pages[1] for table in tables}) == 3
    assert pages.n_free == 4
    for table in tables:
        pages.free(table)
    assert pages.n_free == 8


def test_a_full_page_that_is_shared_is_not_copied():
    pages = cache()
    first = pages.extend(PageTable(), *drawn(P))
    second = pages.extend(pages.shared(first), *drawn(1))
    assert second.pages[0] == first.pages[0]
    assert pages.n_free == 6


def test_a_full_cache_says_so_and_changes_nothing():
    pages = cache(2)
    held = drawn(6)
    table = pages.extend(PageTable(), *held)
    with pytest.raises(RuntimeError, match=r"new pages for 3 more positions: 1 needed, 0 free\. Free a text"):
        pages.extend(table, *drawn(3))
    equal(pages, table, held)
    other = pages.shared(table)
    with pytest.raises(RuntimeError, match="1 needed, 0 free"):
        pages.extend(other, *drawn(1))
    pages.free(other)
    assert pages.extend(table, *drawn(2)).length == 8


def test_keys_and_values_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"keys are \(2, T, 3\) and values \(2, T, 5\)"):
        cache().extend(PageTable(), *drawn(2)[::-1])


def test_a_cache_without_pages_is_refused():
    with pytest.raises(ValueError, match="n_pages = 0"):
        PagedCache(0, P, h, d_k)
