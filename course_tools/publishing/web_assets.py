"""MathJax and reveal.js for pages that work offline, from Python packages of the extra `[site]`."""

import base64
import re
import shutil
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from course_tools.publishing.project import PublishingFailed

MATHJAX = "tex-chtml.js"
"""MathJax 3 with base and AMS macros. `copy_mathjax` puts its fonts in: browsers may refuse a page from disk their files."""
_SITE = ("sphinx", "myst_nb", "sphinx_book_theme", "sphinx_design", "sphinx_copybutton", "tinycss2")


def require_site_extra() -> None:
    """Check that the packages of the extra `[site]` are installed.

    Raises:
        PublishingFailed: one of them is missing; the text says which and how to install them.
    """
    missing = [name for name in _SITE if find_spec(name) is None]
    missing += [name for name in ("sphinx-mathjax-offline", "sphinx-revealjs") if not _installed(name)]
    if missing:
        raise PublishingFailed(
            f"the packages of the extra [site] are missing ({', '.join(missing)}): "
            'install them with `pip install -e ".[site]"`, or run `python3 course.py site`, which installs them.'
        )


def copy_mathjax(folder: Path) -> Path:
    """Write MathJax with its fonts as one file (1.6 MB) into a folder; return the file."""
    source = _file("sphinx-mathjax-offline", f"mathjax/{MATHJAX}")
    fonts = source.parent / "output" / "chtml" / "fonts" / "woff-v2"

    def font(name: re.Match[str]) -> str:
        return f"data:font/woff;base64,{base64.b64encode((fonts / name[1]).read_bytes()).decode()}"

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / MATHJAX
    target.write_text(re.sub(r"%%URL%%/([\w-]+\.woff)", font, source.read_text(encoding="utf-8")), encoding="utf-8")
    return target


def copy_reveal(folder: Path) -> None:
    """Copy the files of reveal.js that slides need into a folder: reveal.js, its style sheet, and the speaker-notes window."""
    for name in ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js"):
        _copied(_file("sphinx-revealjs", f"revealjs/{name}"), folder / name.rpartition("/")[2])


def axe() -> str:
    """Return the source of axe-core, which tests the accessibility of a page."""
    return _file("axe-playwright-python", "axe.min.js").read_text(encoding="utf-8")


def _installed(distribution: str) -> bool:
    try:
        return bool(metadata.version(distribution))
    except metadata.PackageNotFoundError:
        return False


def _file(distribution: str, ending: str) -> Path:
    """Find the file of an installed package whose path has the given ending."""
    found = [path for path in metadata.files(distribution) or () if path.as_posix().endswith(f"/{ending}")]
    if not found:
        raise PublishingFailed(f'the package {distribution} has no file {ending}; reinstall it: pip install -e ".[site]"')
    return Path(str(found[0].locate()))


def _copied(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target
