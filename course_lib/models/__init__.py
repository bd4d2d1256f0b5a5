"""Whole models, one paper a file. Here: sequence to sequence, without attention, by Bahdanau and by Luong."""

from course_lib.models.bahdanau import BahdanauDecoder, bahdanau_steps, hoisted_bahdanau_steps
from course_lib.models.bert import BERT, Pretraining, PretrainingBERT
from course_lib.models.bert_heads import MaskedWordHead, SentenceHead, Span, SpanHead, TagHead, best_span, classification_head
from course_lib.models.byol import ema_update
from course_lib.models.checkpoints import Checkpoint, read_checkpoint
from course_lib.models.decoding import Beam, beam_search, greedy, rows_of
from course_lib.models.encoder import Encoded, Encoder, both_ways, fused_both_ways, stacked_both_ways
from course_lib.models.gat import GAT, GATLayer
from course_lib.models.gcn import GCN
from course_lib.models.gpt import GPT, generate
from course_lib.models.linear_transformer import LinearMemory, LinearTransformer, generate_recurrently
from course_lib.models.luong import LuongDecoder
from course_lib.models.probe import Probe, linear_probe, spectrum
from course_lib.models.sampling import next_word_probabilities, sample, top_k, top_p
from course_lib.models.seq2seq import Decoded, PlainDecoder, Seq2Seq, Spoken
from course_lib.models.transformer import Transformer, Writing

__all__ = [
    "BERT",
    "GAT",
    "GCN",
    "GPT",
    "BahdanauDecoder",
    "Beam",
    "Checkpoint",
    "Decoded",
    "Encoded",
    "Encoder",
    "GATLayer",
    "LinearMemory",
    "LinearTransformer",
    "LuongDecoder",
    "MaskedWordHead",
    "PlainDecoder",
    "Pretraining",
    "PretrainingBERT",
    "Probe",
    "SentenceHead",
    "Seq2Seq",
    "Span",
    "SpanHead",
    "Spoken",
    "TagHead",
    "Transformer",
    "Writing",
    "bahdanau_steps",
    "beam_search",
    "best_span",
    "both_ways",
    "classification_head",
    "ema_update",
    "fused_both_ways",
    "generate",
    "generate_recurrently",
    "greedy",
    "hoisted_bahdanau_steps",
    "linear_probe",
    "next_word_probabilities",
    "read_checkpoint",
    "rows_of",
    "sample",
    "spectrum",
    "stacked_both_ways",
    "top_k",
    "top_p",
]
