"""A text is split as by the published tokenizer."""

import pytest

from course_lib.datasets import word_pieces

VOCABULARY = {"un", "##aff", "##able", "##a", "a", "cafe", "!", "_", "#", "##", "aff"}


def test_the_example_of_the_published_code():
    assert word_pieces("unaffable", VOCABULARY) == ["un", "##aff", "##able"]


def test_the_longest_piece_that_fits_comes_first():
    assert word_pieces("una", VOCABULARY) == ["un", "##a"]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("  \n", []),
        ("Café!", ["cafe", "!"]),
        ("a_a", ["a", "_", "a"]),
        ("## a", ["#", "#", "a"]),
        ("xa a", ["[UNK]", "a"]),
        ("unx", ["[UNK]"]),
    ],
)
def test_small_letters_without_accents_and_marks_alone(text, pieces):
    assert word_pieces(text, VOCABULARY) == pieces


def test_it_cuts_as_the_published_tokenizer(tmp_path):
    transformers = pytest.importorskip("transformers")
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *sorted(VOCABULARY),
        "heure",
        "##s",
        "nor",
        "##male",
        "d",
        "'",
        "europe",
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    try:
        published = transformers.BertTokenizer(str(tmp_path / "vocab.txt"))
    except (ImportError, TypeError, ValueError) as error:
        pytest.skip(f"this release of transformers reads no vocab.txt: {error}")
    if published.vocab_size < len(words):
        pytest.skip("this release of transformers reads no vocab.txt")
    for text in ("Heures normale d'Europe!", "unaffable  a_a", "café una x", "UNAFFABLE"):
        assert word_pieces(text, set(words)) == published.tokenize(text)
