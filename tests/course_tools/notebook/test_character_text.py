"""A text is cut into pieces of characters, and the loss is in bits."""

import torch

from course_tools.notebook.character_text import character_text, next_character_loss


def test_a_text_is_cut_into_pieces_and_a_uniform_model_needs_the_logarithm():
    text = character_text(32, n_held_out=50)
    assert text.held_out.shape == (50, 33)
    assert text.decode(text.encode("The value")[0]) == "The value"
    assert text.decode(text.learn[0]) in text.text
    n = len(text.letters)
    uniform = next_character_loss(lambda tokens: torch.zeros(*tokens.shape, n), (text.held_out,))
    torch.testing.assert_close(uniform, torch.tensor(float(n)).log2())
