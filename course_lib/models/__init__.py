"""Whole models, one paper a file. Here: sequence to sequence, without attention, by Bahdanau and by Luong."""

from course_lib.models.bahdanau import BahdanauDecoder, bahdanau_steps, hoisted_bahdanau_steps
from course_lib.models.byol import ema_update
from course_lib.models.encoder import Encoded, Encoder, both_ways, fused_both_ways, stacked_both_ways
from course_lib.models.luong import LuongDecoder
from course_lib.models.probe import Probe, linear_probe, spectrum
from course_lib.models.seq2seq import Decoded, PlainDecoder, Seq2Seq, Spoken

__all__ = [
    "BahdanauDecoder",
    "Decoded",
    "Encoded",
    "Encoder",
    "LuongDecoder",
    "PlainDecoder",
    "Probe",
    "Seq2Seq",
    "Spoken",
    "bahdanau_steps",
    "both_ways",
    "ema_update",
    "fused_both_ways",
    "hoisted_bahdanau_steps",
    "linear_probe",
    "spectrum",
    "stacked_both_ways",
]
