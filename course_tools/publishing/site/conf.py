"""Sphinx configuration of the site. Pages are written by `web_pages` and `web_notebooks`; outputs are the stored ones."""

import os
import re
from html import escape
from pathlib import Path

from docutils import nodes

from course_lib import __version__
from course_tools.publishing.web_assets import MATHJAX

project = "Attention, from the ground up"
html_title = "Attention course"  # short: a long title makes pages wider than a phone's screen
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
mathjax3_config = {
    "tex": {
        "packages": {"[-]": ["require", "autoload"]},  # they would load files
        "inlineMath": [["$", "$"], ["\\(", "\\)"]],
    },
    "chtml": {"displayAlign": "left"},  # as tables, diagrams and charts
}
myst_mathjax_classes = "tex2jax_process|mathjax_process|math|text_html"  # predictions are HTML outputs, with formulas in $

autodoc_typehints = "signature"
autoclass_content = "both"  # a constructor states what each argument means
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_use_rtype = False  # the section "Returns" of a docstring is prose
add_module_names = False
default_role = "code"
highlight_language = "text"  # for formulas; Python code is marked as such
maximum_signature_line_length = 88
viewcode_line_numbers = True
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "sphinx_book_theme"
html_static_path = [str(Path(__file__).with_name("static"))]
html_css_files = ["site.css", "icons.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_favicon = str(Path(__file__).with_name("static") / "favicon.svg")
templates_path = [str(Path(__file__).with_name("templates"))]
html_js_files = ["predictions.js", "site.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "navbar_persistent": [],  # the search field is in the sidebar
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "use_download_button": False,
    "use_fullscreen_button": False,
    "footer_content_items": ["copyright.html"],
    "show_toc_level": 2,
    "home_page_in_toc": False,
    "toc_title": "On this page",
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
_SIGN = re.compile(r"(`[^`]*`|(?<![\w*])\*[A-Z][^*()`]{7,}\*(?!\w))|[*|]")
"""Matches what is kept, code and the title of a paper, and what is escaped, an asterisk or a bar."""

if repository := os.environ.get("COURSE_SITE_REPOSITORY", "").removesuffix(".git"):
    html_theme_options |= {
        "repository_url": repository,
        "repository_provider": next((name for name in ("gitlab", "bitbucket") if name in repository), "github"),
        "repository_branch": "HEAD",
        "path_to_docs": "",
        "use_repository_button": True,
        "launch_buttons": {"binderhub_url": "https://mybinder.org", "notebook_interface": "jupyterlab"},
    }


def setup(app) -> None:
    """Preserve the special characters of docstrings and the line breaks of their formulas."""
    app.connect("autodoc-process-docstring", _written_for_reading, priority=100)
    app.connect("env-check-consistency", _forget_builtins)
    app.connect("html-page-context", _described)


def _written_for_reading(app, what, name, obj, options, lines: list[str]) -> None:
    """Mark the indented formulas of a docstring as literal blocks; escape asterisks and bars in the rest.

    In `(*batch, T, d)` the asterisk marks axes, and in |A ∩ B| the bars an area; asterisks around a paper's title are kept.
    """
    formula, above, text = False, " ", []
    paragraphs = "\n".join(lines).split("\n\n")
    for paragraph in (each for each in paragraphs if not each.startswith("Create new instance of ")):  # of a named tuple
        below = paragraph.startswith("    ") and (formula or not above.startswith(" "))
        if below and not formula and not above.endswith("::"):
            text.append("::")
        formula = below
        text.append(paragraph if formula else _SIGN.sub(lambda found: found[1] or f"\\{found[0]}", paragraph))
        above = paragraph.rpartition("\n")[2] or " "
    lines[:] = "\n\n".join(text).split("\n")


def _described(app, page, template, context, doctree) -> None:
    """Describe a page by its first paragraph, for those who search or share it; load what lectures and the search need."""
    if page.startswith("lectures/"):
        for script in ("terms.js", "glossary.js"):
            app.add_js_file(script, loading_method="defer")
    if page.startswith("docs/"):
        app.add_js_file("filter.js", loading_method="defer")
    if page == "search":
        for script in ("terms.js", "sections.js", "best_sections.js"):
            app.add_js_file(script, loading_method="defer")
    paragraphs = doctree.findall(nodes.paragraph) if doctree else ()
    said = " ".join(next((each.astext() for each in paragraphs), project).split())
    about = {"og:title": re.sub(r"<[^>]+>", "", context.get("title") or project), "og:description": said, "og:type": "article"}
    if repository:
        about["og:image"] = f"{repository}/raw/HEAD/docs/pictures/check.png"
    tags = "".join(f'\n<meta property="{name}" content="{escape(text)}" />' for name, text in about.items())
    once = re.sub(r'<meta[^>]*name="viewport"[^>]*>', "", context.get("metatags", ""))  # the layout has one
    context["metatags"] = f'{once}\n<meta name="description" content="{escape(said)}" />{tags}'


def _forget_builtins(app, env) -> None:
    """Remove the module builtins, which has no source, from the source pages that viewcode lists."""
    getattr(env, "_viewcode_modules", {}).pop("builtins", None)
