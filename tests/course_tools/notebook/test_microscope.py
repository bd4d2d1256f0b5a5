"""The attention microscope in a notebook: a frame that unpacks the page, and a picture inside where frames are taken out."""

import base64
import re
import zlib
from html.parser import HTMLParser
from importlib import import_module

import pytest

from course_tools.microscope import page
from course_tools.notebook import microscope


@pytest.fixture
def shown(monkeypatch):
    """Collect what is published."""
    found = []
    monkeypatch.setattr(import_module("course_tools.notebook.microscope"), "publish", found.append)
    return found


class Attributes(HTMLParser):
    """The attributes of each element, by its tag."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, dict] = {}

    def handle_starttag(self, tag, attrs):
        self.of.setdefault(tag, dict(attrs))


def test_the_frame_holds_the_page_and_a_picture_with_alt_text_stands_in(shown):
    microscope("digit", height=700)
    parser = Attributes()
    parser.feed(shown[0]["text/html"])
    packed = re.search(r'atob\("([^"]+)"', parser.of["iframe"]["srcdoc"])[1]
    assert zlib.decompress(base64.b64decode(packed)).decode() == page("digit")
    assert len(packed) < 0.7 * len(page("digit"))
    assert parser.of["iframe"]["title"]
    assert "height:700px" in parser.of["iframe"]["style"]
    assert parser.of["img"]["alt"] == shown[0]["text/plain"]


def test_the_sentence_is_that_of_the_model(shown):
    microscope()
    sentence = shown[0]["text/plain"]
    assert "reverse order, nekot" in sentence
    assert 0.5 < float(re.search(r"assigns (\d\.\d\d) of its weight", sentence)[1]) <= 1


def test_another_view_is_refused():
    with pytest.raises(ValueError, match="no view 'word'"):
        microscope("word")
