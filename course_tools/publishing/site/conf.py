"""Sphinx configuration of the site. Pages are written by `web_pages` and `web_notebooks`; outputs are the stored ones."""

import re
from pathlib import Path

from course_lib import __version__
from course_tools.publishing.web_assets import MATHJAX

project = "Attention, from the ground up"
html_title = "Attention course"  # short: a long one makes pages wider than a phone
version = release = __version__
copyright = "the authors of the course, MIT licence"
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]

nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "attrs_inline", "attrs_block"]
myst_heading_anchors = 3
myst_dmath_double_inline = True
mathjax_path = f"mathjax/{MATHJAX}"

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_use_rtype = False  # what a docstring returns is prose
add_module_names = False
default_role = "code"
maximum_signature_line_length = 88
viewcode_line_numbers = True
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "sphinx_book_theme"
html_static_path = [str(Path(__file__).with_name("static"))]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "navbar_persistent": [],  # the search field stands in the sidebar
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "home_page_in_toc": False,
    "toc_title": "On this page",
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def setup(app) -> None:
    """Let docstrings keep their stars and bars: in `(*batch, T, d)` a star is an axis, in |A ∩ B| the bars are an area."""
    app.connect("autodoc-process-docstring", _escape_signs, priority=100)
    app.connect("env-check-consistency", _forget_builtins)


def _escape_signs(app, what, name, obj, options, lines: list[str]) -> None:
    for i, line in enumerate(lines):
        pieces = line.split("`")
        lines[i] = "`".join(piece if k % 2 else re.sub(r"([*|])", r"\\\1", piece) for k, piece in enumerate(pieces))


def _forget_builtins(app, env) -> None:
    """Take the module builtins, whose source there is none of, from the pages of sources that viewcode lists."""
    getattr(env, "_viewcode_modules", {}).pop("builtins", None)
