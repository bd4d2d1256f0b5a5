"""Words, nucleus sizes and odds of a character model whose logits are known."""

import itertools

import torch
from torch import nn

from course_lib.blocks import Sizes
from course_lib.datasets import Vocabulary
from course_lib.fast import fused_causal_attention
from course_lib.generation import top_k, top_p
from course_lib.models import GPT
from course_tools.lectures.lecture_07.character_model import (
    next_character_figure,
    nucleus_sizes,
    show_nucleus_sizes,
    word_fractions,
)

CHARACTERS = Vocabulary.of(["ab "])


def model_of(favourite):
    """A GPT whose most likely next character is always the same; with "" all are equally likely."""
    model = GPT(len(CHARACTERS), 16, Sizes(d_model=12, n_heads=3, d_ff=13, n_layers=1), fused_causal_attention)
    nn.init.zeros_(model.tokens.weight)
    if favourite:
        nn.init.ones_(model.stack.closing.bias)
        model.tokens.weight.data[CHARACTERS.encode(favourite)] = 9.0
    return model.eval()


def test_words_are_compared_with_the_text():
    prompts, spaces = torch.tensor([CHARACTERS.encode("a b a b")] * 20), CHARACTERS.encode("ab ")
    only_letters = lambda logits: torch.full_like(logits, -torch.inf).index_fill(-1, torch.tensor(spaces), 0.0)  # noqa: E731
    all_known = " ".join("".join(word) for n in range(1, 9) for word in itertools.product("ab", repeat=n))
    found = [word_fractions(model_of(""), prompts, 8, only_letters, CHARACTERS, text, 0) for text in (all_known, "c", "a b")]
    assert (found[0].real, found[1].real) == (1, 0)
    assert 0 < found[2].real < 1
    assert found[0].different == found[1].different < 1


def test_the_nucleus_of_equal_characters_keeps_a_fraction_of_them(capsys):
    tokens = torch.randint(len(CHARACTERS), (40,))
    kept = nucleus_sizes(model_of(""), tokens, 8, top_p, 0.5)
    assert kept.unique().tolist() == [-(-len(CHARACTERS) // 2)]
    assert len(kept) == 3 * len(tokens.unfold(0, 8, 4))
    show_nucleus_sizes(kept, 0.5, 2)
    assert f"{len(kept)} positions of new text" in capsys.readouterr().out


def test_the_most_likely_character_is_in_the_caption(capsys):
    draw = next_character_figure(model_of("b"), CHARACTERS, "ab", top_k, top_p)
    draw(k=1)
    assert "1 characters are kept, the most likely is 'b' with 1.00" in capsys.readouterr().out
