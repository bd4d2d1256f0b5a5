"""Names are cut, laid out, paired and labelled as stated, on a few names of two documents."""

import torch

from course_lib.datasets import BEGIN, END, BytePairs, DisplayName, Vocabulary
from course_lib.losses import nsp_pairs, segment_input
from course_tools.lectures.lecture_08.data import NameTexts, labelled, mixed_documents, word_piece_vocabulary

TEXTS = ("aa", "ab", "ba", "bb", "ca", "cb", "da")
NAMES = [DisplayName(text, i, document) for document, i in ((0, 0), (1, 1)) for text in TEXTS] + [
    DisplayName("zz", i, i) for i in range(2, 8)
]
PIECES = BytePairs.learn([*TEXTS, "zz", "de", "nl", "sv", "fr", "es", "pl", "fi", "tr"], 0)
WORDS = Vocabulary.of([PIECES.cut(text) for text in (*TEXTS, "zz de nl sv fr es pl fi tr")], between=" ")
MADE = NameTexts(PIECES, WORDS, segment_input, nsp_pairs)


def test_a_passage_is_of_one_document():
    found = MADE.passages(NAMES[:14], offset=1, n_names=4)
    assert [document for document, _ in found] == [0, 0, 1, 1]
    assert [len(passage) for _, passage in found] == [12, 6, 12, 6]
    assert PIECES.join(WORDS.decode(found[0][1].tolist())) == "ab ba bb ca"


def test_the_next_passage_follows_where_there_are_no_strangers():
    tokens, segments, lengths, classes = MADE.pairs(NAMES[:14], seed=0, strangers=False)
    assert not classes.any()
    assert tokens.shape == segments.shape == (len(lengths), int(lengths.max()))
    assert MADE.sentences(tokens[0, : lengths[0]]) == ["aa ab ba bb", "ca cb da"]
    assert MADE.pairs(NAMES[:14], seed=0)[3].any()


def test_names_alone_have_one_segment_and_their_language():
    tokens, segments, lengths, languages = MADE.alone(NAMES[6:8])
    assert (tokens[:, 0] == BEGIN).all()
    assert (tokens == END).sum(1).tolist() == [1, 1]
    assert not segments.any()
    assert (lengths.tolist(), languages.tolist()) == ([5, 5], [0, 1])


def test_the_answer_is_the_name_in_the_language_asked_for():
    tokens, segments, lengths, tags, ends = MADE.two_names(NAMES, 20, seed=0)
    assert (tags == -100).sum(1).tolist() == [6 + tokens.shape[1] - int(n) for n in lengths]
    for row, (first, last), row_tags, row_segments in zip(tokens.cpu(), ends.tolist(), tags, segments, strict=True):
        question, _ = MADE.sentences(row[row != 0])
        assert row_segments[first] == 1
        assert len(set(row_tags[first : last + 1].tolist())) == 1
        assert ("de", "nl", "sv", "fr", "es", "pl", "fi", "tr")[int(row_tags[first])] == question


def test_as_many_names_of_each_language_are_labelled():
    few = labelled(NAMES, seed=0, n_each=1)
    assert [name.language for name in few] == list(range(8))
    assert {labelled(NAMES, seed, 1)[0].text for seed in range(20)} > {few[0].text}
    assert torch.equal(MADE.encode("aa"), torch.tensor(WORDS.encode("▁ a a")))


def test_names_and_passages_have_rows_without_a_second_segment():
    tokens, segments, lengths, classes = MADE.one_name_each(NAMES[:3])
    assert (lengths.tolist(), segments.any().item(), classes.tolist()) == ([5, 5, 5], False, [0, 0, 0])
    assert MADE.sentences(tokens[1])[0] == "ab"
    rows = MADE.unpaired(NAMES[:7])
    assert len(rows) == 2 + 2 + 2 + 1
    assert [MADE.sentences(row[row != 0])[0] for row in (rows[0], rows[2])] == ["aa ab ba bb", "ab ba bb ca"]


def test_mixed_documents_keep_their_sizes():
    mixed = mixed_documents(NAMES[:14], seed=0)
    assert [name.document for name in mixed] == [name.document for name in NAMES[:14]]
    assert sorted((name.text, name.language) for name in mixed) == sorted((name.text, name.language) for name in NAMES[:14])
    assert len({name.language for name in mixed[:7]}) == 2


def test_passages_of_two_documents_of_equal_size_share_one_half_of_the_time():
    assert MADE.same_document_rate(NAMES[:14]) == 0.5


def test_a_piece_inside_a_word_is_marked():
    assert word_piece_vocabulary(["▁a", "b", "cd"]) == {"a", "b", "##b", "##cd"}
