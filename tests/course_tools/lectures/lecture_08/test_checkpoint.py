"""The checkpoint is read as it was written, and other weights are refused; the stored one is that of its record."""

import pytest
import torch

from course_tools.lectures.lecture_08 import checkpoint
from course_tools.lectures.lecture_08.date_pairs import DateTexts, date_pairs
from course_tools.notebook import recorded

TEXTS = DateTexts.of(date_pairs(60, 0)[0])


def test_read_as_written(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "WEIGHTS", tmp_path / "weights.pt")
    model = checkpoint.new_bert(TEXTS)
    digest = checkpoint.save(model, checkpoint.WEIGHTS)
    read = checkpoint.load(TEXTS, digest)
    for ours, theirs in zip(read.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)
    with pytest.raises(checkpoint.OtherWeights, match="course study 08_checkpoint"):
        checkpoint.load(TEXTS, "0" * 16)


def test_the_stored_weights_are_those_of_the_record():
    assert checkpoint.digest() == recorded("08_checkpoint").of("BERT")[0].texts["digest"]
