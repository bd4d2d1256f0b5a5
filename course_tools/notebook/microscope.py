"""The attention microscope inside a notebook."""

import base64
import html
import zlib

import torch
from torch import nn

from course_lib.analysis import record
from course_tools.microscope import page
from course_tools.microscope.models import LETTERS, PADDING, T_WORD, trained_model
from course_tools.notebook import plots
from course_tools.notebook.show import figure_html, publish

_WORD = "token"


def microscope(view: str = "reverse", height: int = 900) -> None:
    """Show the attention microscope: a page in which small trained transformers run in JavaScript.

    If a notebook is not trusted, or its scripts do not run, a static figure of one head is shown instead; outside a notebook,
    its description is printed.

    Args:
        view: the initial view: "reverse" (a word), "continue" (a text) or "digit" (classify a digit).
        height: the height of the frame in pixels.

    Raises:
        ValueError: there is no such view.
    """
    source = html.escape(_compressed(page(view), view), quote=True)
    still, sentence = _still()
    frame = (
        f'<iframe title="Attention microscope" srcdoc="{source}" style="width:100%;height:{height}px;border:0">{still}</iframe>'
    )
    publish({"text/html": frame, "text/plain": sentence})


def _compressed(text: str, view: str) -> str:
    """Write a page as one that unpacks itself, at half its size."""
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return f"""<script data-view="{view}">
const packed = Uint8Array.from(atob("{packed}"), (letter) => letter.charCodeAt(0));
new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text().then((page) => {{
  document.open();
  document.write(page);
  document.close();
}});
</script>"""


def _still() -> tuple[str, str]:
    """Draw the weights of the head that most reverses a word, as HTML; return it with its description."""
    T = len(_WORD)
    tokens = torch.tensor([LETTERS.index(letter) for letter in _WORD] + [PADDING] * (T_WORD - T))
    heads, written = _heads(trained_model("reverse"), tokens)
    mirrored = heads[:, :T, :T].flip(2).diagonal(dim1=1, dim2=2).mean(-1)
    head, n_heads = int(mirrored.argmax()), len(heads) // 2
    figure = plots.attention_map(heads[head, :T, :T], list(written[:T]), list(_WORD), x="letter read", y="letter written")
    sentence = (
        f"A trained transformer writes {_WORD} in reverse order, {written[:T]}: "
        f"head {head % n_heads + 1} of its layer {head // n_heads + 1} assigns "
        f"{mirrored[head]:.2f} of its weight to the letter at the mirrored position."
    )
    return figure_html(figure, sentence), sentence


def _heads(model: nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, str]:
    with record(model) as seen, torch.no_grad():
        logits = model(tokens[None], (tokens != PADDING)[None, None])
    return torch.cat([attended.weights[0] for (attended,) in seen.values()]), "".join(
        LETTERS[letter] for letter in logits[0].argmax(-1).tolist()
    )
