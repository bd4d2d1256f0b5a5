"""Figures of a notebook as separate files, which a browser loads when they come into view."""

import base64
import hashlib
import re
from pathlib import Path

from nbformat import NotebookNode

from course_tools.notebook.show import image_html

_DATA_URI = re.compile(r'(<img src=|"image": )"data:image/(png|svg\+xml|jpeg|webp);base64,([^"]+)"')
"""Matches an image, or the recorded frames of an interactive figure."""
_ENDINGS = {"png": "png", "svg+xml": "svg", "jpeg": "jpg", "webp": "webp"}


def image_of(output: NotebookNode) -> str:
    """Return the image of a figure as HTML with its alternative text; "" for any other output."""
    about = output.get("metadata", {}).get("image/png", {})
    return image_html("".join(output.data["image/png"]).strip(), about["alt"], about["width"]) if "alt" in about else ""


def with_files(html: str, folder: Path, address: str) -> str:
    """Write each image of an output into a folder, named by its content; return the HTML that loads them from `address`."""

    def written(match: re.Match[str]) -> str:
        content = base64.b64decode(match[3])
        name = f"{hashlib.sha256(content).hexdigest()[:16]}.{_ENDINGS[match[2]]}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        before = match[1].replace("<img ", '<img loading="lazy" ')
        return f'{before}"{address}/{name}"'

    return _DATA_URI.sub(written, html)
