"""`source` shows what a function really is: its file's own lines, folded; what has none is refused in a sentence."""

import inspect
import sys
from functools import partial
from html.parser import HTMLParser

import pytest
import torch

from course_lib.attention import MultiHead, attend
from course_tools.notebook import source


class Text(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = ""
        self.feed(page)

    def handle_data(self, data):
        self.found += data


ROOT = sys.modules[source.__module__].ROOT


@pytest.fixture
def shown(monkeypatch):
    published = []
    monkeypatch.setattr(sys.modules[source.__module__], "publish", published.append)
    return published


@pytest.mark.parametrize("f", [attend, MultiHead, MultiHead.forward])
def test_it_shows_the_lines_of_the_file_folded_with_name_file_and_first_line(f, shown):
    source(f)
    (output,) = shown
    place, _, code = output["text/plain"].partition("\n")
    name, where = place.split(" · ")
    file, first = where.split(", line ")
    assert name == f.__qualname__
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()[int(first) - 1 :]
    assert inspect.cleandoc("\n".join(lines)).startswith(code.splitlines()[0])
    assert code.split() == inspect.getsource(f).split()
    page = output["text/html"]
    assert page.startswith("<details><summary>")
    summary, _, body = Text(page).found.partition(f"line {first}")
    assert (name in summary, file in summary) == (True, True)
    assert body.split() == code.split()
    assert "class=" not in page.split("</summary>")[1].replace('class="highlight"', "")


def test_a_function_of_the_tests_shows_its_own_lines(shown):
    def doubled(x):
        return 2 * x

    source(doubled)
    first = doubled.__code__.co_firstlineno
    assert shown[0]["text/plain"].endswith(f"line {first}\ndef doubled(x):\n    return 2 * x")


@pytest.mark.parametrize("f", [len, torch.softmax, 3, partial(attend)])
def test_what_has_no_python_source_is_refused_with_what_to_do(f):
    with pytest.raises(TypeError, match=r"there is no Python source of it to show\. It needs a function or class"):
        source(f)
