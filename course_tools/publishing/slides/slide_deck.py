"""Convert the cells of a solved lecture to slides: headings, predictions to vote on, measurements, exercises, claims.

A heading becomes a slide with its first sentence and its first table, list or equation with what leads to it, or with its first
two sentences; an equation below a table or list gets a slide of its own. A claim stands below its figure or, without one, on a
slide of its own; a diagram becomes a slide, a prediction one to vote on and one with the right option, above what the cells
directly below it measure, else with its explanation.
Other prose goes to the notes.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape, unescape

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat import NotebookNode

from course_tools.checks.inline_markup import to_html
from course_tools.notebook.prediction_options import UnknownPrediction, prediction
from course_tools.publishing import diagram_cells
from course_tools.publishing.claims_table import must_hold
from course_tools.publishing.figure_files import image_of
from course_tools.publishing.outputs import tags

MOST_LINES = 12
"""Lines of code on one slide."""
MOST_CLAIMS = {"figure": 2, "measurement": 2, "answer": 1}
MOST_ROWS = 8
"""Lines of a table or items of a list on one slide."""
MOST_LETTERS = 450
"""Of a list with more, a slide shows the first sentence of each item; of a paragraph with half as many, the last."""
_EQUATION = re.compile(r"\$\$.+?\$\$", re.DOTALL)
_DIAGRAM = re.compile(r'<img alt="([^":]*)[^>]*src="data:image/svg[^>]*>')
_ADDRESS = re.compile(r",? https?://[^\s),;]+")
_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*`$\"'([])")
_QUESTION = re.compile(r"\*\*Question (\d+)\.\*\*(.*?)(?=\*\*Question \d+\.\*\*|\Z)", re.DOTALL)
_SYMBOL = re.compile(r"(`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|<[^>]*>)|\b([A-Za-z])_([a-z]|model|ff)\b", re.DOTALL)
"""What is kept, code, formulas and tags, or a symbol with a subscript."""
_TO_A_FILE = re.compile(r"(?<!!)\[([^\[\]]+)\]\(\.\./[^)\s]+\)")
"""A link to a file of the course, which the slides cannot reach: only its text is kept."""
_FOLDED = re.compile(r"<details><summary>([A-Z])\. (.*?)</summary>\s*(.*?)</details>", re.DOTALL)


@dataclass(frozen=True)
class Slide:
    """One slide: `kind` is its style, `body` and `notes` are HTML."""

    kind: str
    title: str
    body: str
    notes: str = ""
    evidence: bool = False
    """Whether it may stand below the answer to the prediction before it: the cell follows it, with no prose between."""
    asked: str = ""
    """The sentence that asks, of a prediction; its answer repeats it."""


def slides(notebook: NotebookNode) -> list[Slide]:
    """Make the slides of a solved and executed lecture, in its order."""
    deck: list[Slide] = []
    below = False
    for cell in diagram_cells.as_svg(notebook.cells):
        if {"progress", "ledger", "hints", "companion"} & set(tags(cell)):
            continue
        if cell.cell_type == "code" and "predict" in tags(cell):
            _ask(deck, cell)
            below = True
        elif cell.cell_type == "markdown":
            deck += _of_prose(cell)
            below = False
        else:
            below = below and not {"exercise", "bug"} & set(cell.metadata) and "interactive" not in tags(cell)
            made = [replace(slide, evidence=below) for slide in _of_code(cell)]
            deck += [slide for slide in made if "interactive" not in tags(cell) or not _is_drawn(slide, deck)]
    return _under_sections(_without_bare_headings(_with_claims_below(_with_evidence(deck))))


def _under_sections(deck: list[Slide]) -> list[Slide]:
    """Put above each figure without a title that of its section, small."""
    above = ""
    for i, slide in enumerate(deck):
        if slide.kind == "figure" and not slide.title:
            deck[i] = replace(slide, body=f'<p class="asked">{above}</p>{slide.body}')
        elif slide.kind in ("section", "vote") and slide.title not in ("", "Predict"):
            above = slide.title
    return deck


def _without_bare_headings(deck: list[Slide]) -> list[Slide]:
    """Give a heading without words to the next slide, if that has no title of its own."""
    kept: list[Slide] = []
    for slide in deck:
        i = next((i for i in range(len(kept) - 1, -1, -1) if kept[i].kind != "notes"), None)
        if i is not None and not kept[i].body and slide.kind != "notes" and slide.title in ("", "Predict"):
            slide = replace(slide, title=kept.pop(i).title)
        kept.append(slide)
    return kept


def _is_drawn(slide: Slide, deck: list[Slide]) -> bool:
    """Return whether one of the last slides has a figure with the caption of this one, as before an explorer."""
    caption = slide.body.partition("<figcaption>")[2]
    return any(caption and caption in earlier.body for earlier in deck[-5:])


def _with_claims_below(deck: list[Slide]) -> list[Slide]:
    """Put a claim below the figure, answer or claim on the slide before it, if it has room; notes may stand between."""
    joined: list[Slide] = []
    for slide in deck:
        i = next((i for i in range(len(joined) - 1, -1, -1) if joined[i].kind != "notes"), None)
        if slide.kind == "measurement" and i is not None:
            above = joined[i]
            concerned = above.kind != "answer" or slide.evidence
            if concerned and above.body.count('class="claim"') < MOST_CLAIMS.get(above.kind, 0):
                title = f"{above.title}, {slide.title.removeprefix('Claim ')}" if above.kind == "measurement" else above.title
                joined[i] = replace(above, title=title, body=above.body + slide.body, notes=above.notes + slide.notes)
                continue
        joined.append(slide)
    return joined


def _with_evidence(deck: list[Slide]) -> list[Slide]:
    """Put below each answer the figure that its cells draw, beside it their claim if they draw none or it repeats the answer.

    An answer with neither stands above its explanation, which is the slide after it.
    """
    deck = list(deck)
    for i, slide in enumerate(deck):
        if slide.kind != "answer":
            continue
        end = next((j for j in range(i + 1, len(deck)) if not deck[j].evidence), len(deck))
        figures, measured = ([j for j in range(i + 2, end) if deck[j].kind == kind] for kind in ("figure", "measurement"))
        repeated = [j for j in measured[1:] if _numbers(slide.body) & _numbers(deck[j].body)]
        shown = deck[next(iter(repeated or figures or measured), i + 1)]
        title, body = "Answer" if shown.kind == "why" else "", slide.body + shown.body
        if shown.kind == "measurement":
            title = f"Measured: {shown.title.lower()}"
            body = f'<div class="beside">{slide.body}<div>{shown.body}</div></div>'
        deck[i] = replace(slide, title=title, body=body, notes=slide.notes + shown.notes)
        deck[deck.index(shown)] = Slide("why", "", "")
    return [slide for slide in deck if slide.kind != "why"]


def _numbers(body: str) -> set[str]:
    """Return the numbers of two digits or more in the words of a slide."""
    return set(re.findall(r"\d[\d.]*\d", unescape(re.sub(r"<[^>]+>", " ", body))))


def _of_prose(cell: NotebookNode) -> Iterator[Slide]:
    if "header" in tags(cell):
        title, _, rest = cell.source.partition("\n")
        words = _DIAGRAM.sub("", rest)
        yield Slide("title", _inline(title.lstrip("# ")), _markdown(_first_sentences(words, 1)), _markdown(words))
        yield from _diagrams(rest)
        return
    if "quiz" in tags(cell) and _QUESTION.search(cell.source):
        yield from _quiz(cell.source)
        return
    sections = list(_sections(cell.source))
    for heading, written in sections:
        text = _DIAGRAM.sub("", written)
        if "predict" in tags(cell) and (heading, written) == sections[-1]:
            asked = text.partition("\n- **A.**")[0]
            asked = re.sub(r"^\*\*Predict(?:\.| a number)\*\*\s*(?:\([^)]*\)\.\s*)?", "", asked.strip())
            body, question = _markdown(asked), _sentences(asked.rpartition("\n\n")[2])[-1]
            yield Slide("vote", _inline(heading) or "Predict", f'<div class="question">{body}</div>', asked=_inline(question))
        elif heading or _shown(text):
            first, *more = _shown(text) or [_first_sentences(text, 2)]
            yield Slide("section", _inline(heading), _markdown(first), _markdown(text))
            for shown in more:
                yield Slide("section", _inline(heading), _markdown(shown))
        elif text.strip():
            yield Slide("notes", "", "", _markdown(text))
        yield from _diagrams(written)


def _diagrams(text: str) -> Iterator[Slide]:
    """Yield one slide for each diagram, titled by the first part of its alternative text."""
    for diagram in _DIAGRAM.finditer(text):
        yield Slide("diagram", escape(unescape(diagram[1])), f"<figure>{diagram[0]}</figure>")


def _of_code(cell: NotebookNode) -> Iterator[Slide]:
    if "exercise" in cell.metadata:
        yield _exercise(cell)
    for output in cell.get("outputs", []):
        claim = output.get("metadata", {}).get("course_claim")
        if claim:
            yield _claim(claim)
        elif image := image_of(output):
            caption = f"<figcaption>{to_html(output.data['text/plain'])}</figcaption>"
            yield Slide("figure", "", f"<figure>{image}{caption}</figure>")


def _quiz(source: str) -> Iterator[Slide]:
    """Yield one slide to vote on for each question; the explanations go to the notes."""
    for number, text in _QUESTION.findall(source):
        options = [(letter, _inline(words)) for letter, words, _ in _FOLDED.findall(text)]
        answers = "".join(
            f"<p><b>{letter}</b> {_inline(words)}: {_markdown(why)}</p>" for letter, words, why in _FOLDED.findall(text)
        )
        asked = f'<div class="question">{_markdown(_FOLDED.sub("", text).strip())}</div>'
        yield Slide("vote", f"Question {number}", asked + _options(options), answers)


def _exercise(cell: NotebookNode) -> Slide:
    """Make the slide of an exercise, with signature and first sentence of the docstring; of a bug hunt, with short code."""
    head = re.match(r"(?:#.*\n?)*", cell.source)[0]
    code = cell.source.removeprefix(head)
    number, name, *facts = re.sub(r"\s*^# ", " ", head, flags=re.MULTILINE).strip().split(" · ")
    title = f"{escape(number)} · {_inline(name)}"
    if "bug" in cell.metadata:
        return Slide("bug", f"{title}: something is wrong here", _code(code) or "<p>The code is in the lecture.</p>")
    function = next((node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)), None)
    if function is None:
        return Slide("exercise", title, "<p>The task is in the lecture.</p>")
    documented = ast.get_docstring(function) or ""
    body = f'<p class="facts">{escape(" · ".join(facts))}</p><p>{_inline(_first_sentences(documented, 1))}</p>'
    return Slide("exercise", title, body + _code(_signature(function)), f"<pre>{escape(documented)}</pre>")


def _signature(function: ast.FunctionDef) -> str:
    """Return the signature on one line, or with one line per argument if it is too long for a slide."""
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    short = f"def {function.name}({ast.unparse(function.args)}){returns}:"
    if len(short) <= 62:
        return short
    arguments = re.split(r", (?=\w+: |\*)", ast.unparse(function.args))
    return "\n".join([f"def {function.name}(", *(f"    {argument}," for argument in arguments), f"){returns}:"])


def _claim(claim: dict) -> Slide:
    """Make the slide of a claim; below a figure its condition stands in the notes only."""
    condition = f"{'✓' if claim['held'] else '✗'} {escape(must_hold(claim))}"
    body = f'<p class="claim">{_inline(claim["text"])}</p><p class="threshold">{condition}</p>'
    return Slide("measurement", f"Claim {escape(claim['id'])}", body, f"<p>{escape(claim['id'])} {condition}</p>")


def _ask(deck: list[Slide], cell: NotebookNode) -> None:
    """Add the options to the question's slide, and a slide with the right one; explanations go to the notes."""
    try:
        asked = prediction(re.search(r'predict\("([^"]+)"', cell.source)[1])
    except UnknownPrediction:
        return
    last = next((i for i in range(len(deck) - 1, -1, -1) if deck[i].kind == "vote"), None)
    question = ""
    if last is not None:
        question = f'<p class="asked">{deck[last].asked}</p>'
        options = _options([(option.letter, option.text) for option in asked.options])
        if asked.within:
            options = (
                f'<p class="options">A number, {asked.within if asked.within == "exactly" else f"within {asked.within}"}</p>'
            )
        deck[last] = replace(deck[last], body=deck[last].body + options)
    right = asked.right_option
    named = [(option, "" if asked.within else f"{option.letter} ") for option in asked.options]
    notes = "".join(f"<p><b>{letter}</b>{option.text}: {option.explanation}</p>" for option, letter in named)
    letter = "" if asked.within else f'<b class="letter">{right.letter}</b> '
    body = f'<div class="answer">{question}<p>{letter}{right.text}</p></div>'
    deck += [Slide("answer", "Answer", body, notes), Slide("why", "", f"<p>{right.explanation}</p>", evidence=True)]


def _options(options: list[tuple[str, str]]) -> str:
    rows = "".join(f'<li><b class="letter">{letter}</b><span>{text}</span></li>' for letter, text in options)
    return f'<ul class="options">{rows}</ul>'


def _sections(source: str) -> Iterator[tuple[str, str]]:
    """Split Markdown at its headings: pairs of a heading, empty before the first, and the text below it."""
    before, *rest = re.split(r"^(#{1,4} .+)$", source, flags=re.MULTILINE)
    if before.strip():
        yield "", before
    for heading, text in zip(rest[::2], rest[1::2], strict=True):
        yield heading.lstrip("# ").strip(), text


def _first_sentences(text: str, most: int) -> str:
    """Return at most `most` sentences of the first paragraph of a Markdown text."""
    paragraphs = [part.strip() for part in text.strip().split("\n\n")]
    prose = next((part for part in paragraphs if part and not _is_shown(part)), "")
    return re.sub(r":$", ".", " ".join(_sentences(prose)[:most]))


def _sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences; formulas are kept whole, and a very short sentence stays with the next."""
    sentences: list[str] = [""]
    for part in _SENTENCE_END.split(" ".join(paragraph.split())):
        sentences[-1] = f"{sentences[-1]} {part}".strip()
        whole = all(sentences[-1].count(mark) % 2 == 0 for mark in ("$", "**", "`"))
        if whole and not sentences[-1].endswith("et al.") and len(sentences[-1]) > 25:
            sentences.append("")
    return [sentence for sentence in sentences if sentence]


def _shown(text: str) -> list[str]:
    """Return what the slides of a section show, in Markdown; nothing if it has no short table or list and no equation.

    The first slide has the first of these, below the section's first sentence and what leads to it; if that is no equation, a
    second slide has the first equation.
    """
    blocks = [part.strip() for part in _EQUATION.sub(r"\n\n\g<0>\n\n", text).split("\n\n") if part.strip()]
    shown: list[str] = []
    for i, block in enumerate(blocks):
        if shown and not block.startswith("$$"):
            continue
        if short := _short(block):
            lead = "" if i == 0 or _is_shown(blocks[i - 1]) else _lead(blocks[i - 1])
            first = "" if shown else _first_sentences("\n\n".join(blocks[:i]), 1)
            then = "" if i or not block.startswith("$$") else _first_sentences(text, 1)
            shown.append("\n\n".join(part for part in (_unless_in(first, lead), lead, short, then) if part))
            if block.startswith("$$"):
                break
    return shown


def _is_shown(block: str) -> bool:
    return block.startswith(("|", "$$", "<", "- ", "```", "!["))


def _short(block: str) -> str:
    """Return an equation, each of its parts on its own line, or a table or list if it is short; of anything else nothing."""
    if block.startswith("$$"):
        return "\n\n".join(f"$${part}$$" for part in _side_by_side(block.strip("$")))
    rows = re.split(r"\n(?=- )" if block.startswith("- ") else "\n", block)
    if not block.startswith(("|", "- ")) or not 1 < len(rows) <= MOST_ROWS:
        return ""
    if block.startswith("- ") and len(block) > MOST_LETTERS:
        rows = [f"- {_first_sentences(_ADDRESS.sub('', row.removeprefix('- ')), 1)}" for row in rows]
    return "\n".join(rows)


def _lead(paragraph: str) -> str:
    """Return a paragraph above an equation, table or list or, of a long one, its last sentence if that leads to it."""
    if len(paragraph) <= MOST_LETTERS // 2:
        return paragraph
    return "" if paragraph.endswith(".") else _sentences(paragraph)[-1]


def _unless_in(sentence: str, paragraph: str) -> str:
    return "" if sentence.rstrip(".:") in " ".join(paragraph.split()) else sentence


def _side_by_side(formula: str) -> list[str]:
    r"""Split formulas that a lecture separates by `\qquad`: a slide shows each on its own line."""
    parts = [""]
    for piece in re.split(r"(\\q?quad)", formula):
        outside = parts[-1].count("{") == parts[-1].count("}") and parts[-1].count(r"\left") == parts[-1].count(r"\right")
        if piece == r"\qquad" and outside and r"\begin" not in formula:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()]


def _code(code: str) -> str:
    lines = code.strip("\n").splitlines()
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>" if 0 < len(lines) <= MOST_LINES else ""


def _converter() -> MarkdownIt:
    converter = MarkdownIt("commonmark", {"html": True}).enable("table").use(dollarmath_plugin)
    for kind, marks in (
        ("math_inline", ("\\(", "\\)")),
        ("math_inline_double", ("\\[", "\\]")),
        ("math_block", ("\\[", "\\]")),
    ):
        converter.add_render_rule(
            kind, lambda _, tokens, i, *rest, m=marks: m[0] + escape(tokens[i].content, quote=False) + m[1]
        )
    return converter


def _markdown(text: str) -> str:
    return _converter().render(_with_subscripts(_TO_A_FILE.sub(r"\1", text.strip())))


def _inline(text: str) -> str:
    return _converter().renderInline(_with_subscripts(" ".join(text.split())))


def _with_subscripts(text: str) -> str:
    """Set the subscripts of symbols that stand outside of code and formulas: d_k."""
    return _SYMBOL.sub(lambda found: found[1] or f"{found[2]}<sub>{found[3]}</sub>", text)
