"""Show a page's text early: one style sheet with the rules that pages use, no script that holds up the text."""

import re
from itertools import pairwise
from pathlib import Path

import tinycss2

from course_tools.publishing.project import PublishingFailed

_SHEET = re.compile(r'[ \t]*<link(?=[^>]*rel="stylesheet")[^>]*href="(?P<root>[^"]*?)_static/(?P<name>[^"?]+)[^"]*"[^>]*>\n?')
_PRELOAD = re.compile(r'[ \t]*<link rel="preload" as="script"[^>]*>\n?')
_OPTIONS = re.compile(r'<script src="(?P<root>[^"]*)_static/documentation_options\.js[^"]*"></script>')
_SCRIPT = re.compile(r"<script(?![^>]*\b(?:defer|async)\b)(?=[^>]*\bsrc=)")


def lean_pages(site: Path) -> None:
    """Rewrite the pages that Sphinx made, in place.

    A theme brings 500 kB of style sheets, most of them for parts that the site lacks, and scripts that a browser runs before it
    shows a word. Here the sheets become one, without the rules whose classes no page and no script names, and scripts wait.

    Args:
        site: the folder of the site.

    Raises:
        PublishingFailed: two pages load different style sheets.
    """
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    pages = {path: text for path, text in pages.items() if "documentation_options.js" in text}
    sheets = {tuple(match["name"] for match in _SHEET.finditer(text)) for text in pages.values()}
    if len(sheets) != 1:
        raise PublishingFailed(f"the pages of the site load different style sheets: {sorted(sheets)}.")
    scripts = [path for path in site.glob("_static/**/*.js") if path.parent.name not in ("mathjax", "reveal")]
    named = {word for text in (*pages.values(), *map(Path.read_text, scripts)) for word in re.findall(r"[\w-]+", text)}
    static = site / "_static"
    styles = "\n".join(_used(_parsed(static / name), named) for name in sheets.pop())
    if found := re.search(r"@import[^;]*|url\((?!\s*[\"']?data:)[^)]*\)", styles):
        raise PublishingFailed(f"the style sheets of the site load another file: {found[0]}.")
    (static / "style.css").write_text(styles, encoding="utf-8")
    options = (static / "documentation_options.js").read_text(encoding="utf-8")
    for path, text in pages.items():
        root = _OPTIONS.search(text)["root"]
        text = _SHEET.sub("", text).replace(
            "</title>", f'</title>\n<link rel="stylesheet" href="{root}_static/style.css" />', 1
        )
        text = _OPTIONS.sub(lambda _: f"<script>{options}</script>", _PRELOAD.sub("", text))
        path.write_text(_SCRIPT.sub("<script defer", text), encoding="utf-8")


def _parsed(sheet: Path) -> list:
    """Return the rules of a style sheet, with those of the sheets that it imports."""
    rules = tinycss2.parse_stylesheet(sheet.read_text(encoding="utf-8"), skip_comments=True, skip_whitespace=True)
    imported = [rule for rule in rules if rule.type == "at-rule" and rule.lower_at_keyword == "import"]
    names = [token.value for rule in imported for token in rule.prelude if token.type == "string"]
    inside = [rule for name in names for rule in _parsed(sheet.parent / name)]
    return [*inside, *(rule for rule in rules if rule not in imported)]


def _used(rules: list, named: set[str]) -> str:
    """Write the rules of a style sheet whose selectors contain only classes that are named."""
    kept = []
    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = [each for each in _selectors(rule.prelude) if _classes(each) <= named]
            kept += [",".join(map(tinycss2.serialize, selectors)) + f"{{{tinycss2.serialize(rule.content)}}}"] * bool(selectors)
        elif rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports"):
            inside = _used(tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True), named)
            kept += [f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{inside}}}"] * bool(inside)
        elif (
            rule.type == "at-rule" and rule.lower_at_keyword != "font-face"
        ):  # those of the theme are icons, which icons.css draws
            kept.append(rule.serialize())
    return "\n".join(kept)


def _selectors(prelude: list) -> list[list]:
    """Split `a, b` at its commas; those in brackets belong to one token."""
    found = [[]]
    for token in prelude:
        if token.type == "literal" and token.value == ",":
            found.append([])
        else:
            found[-1].append(token)
    return found


def _classes(selector: list) -> set[str]:
    """Return the classes of a selector; those in brackets, as in `:not(.a)`, are no condition that must be met."""
    return {
        after.value for dot, after in pairwise(selector) if (dot.type, after.type) == ("literal", "ident") and dot.value == "."
    }
