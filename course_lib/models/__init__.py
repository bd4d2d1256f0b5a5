"""Models, one paper a file."""

from course_lib.models.bahdanau import BahdanauDecoder, bahdanau_steps, hoisted_bahdanau_steps
from course_lib.models.bert import BERT, Pretraining, PretrainingBERT
from course_lib.models.bert_heads import MaskedWordHead, SentenceHead, Span, SpanHead, TagHead, best_span, classification_head
from course_lib.models.bigru_encoder import Encoded, Encoder, both_ways, fused_both_ways, stacked_both_ways
from course_lib.models.byol import BYOL, Bootstrapped, ema_update, ema_update_
from course_lib.models.captioner import (
    Captioned,
    CaptionStep,
    ShowAndTell,
    ShowAttendAndTell,
    caption_step,
    doubly_stochastic_penalty,
    soft_attention,
)
from course_lib.models.deit import DeiT, TwoAnswers
from course_lib.models.detr import (
    DETR,
    Detected,
    LearnedQueries,
    ObjectBlock,
    ObjectQueries,
    PlacedSelfAttention,
    PointQueries,
    places_of,
)
from course_lib.models.elmo import BothLanguageModels, ELMo, ScalarMix, scalar_mix
from course_lib.models.gat import GAT, GATLayer
from course_lib.models.gcn import GCN
from course_lib.models.gpt import GPT, generate
from course_lib.models.hierarchical import Document, Hierarchical, compose_document
from course_lib.models.linear_transformer import LinearMemory, LinearTransformer, generate_recurrently
from course_lib.models.luong import LuongDecoder
from course_lib.models.mixer import Mixer
from course_lib.models.ngram import NGram
from course_lib.models.segmenter import PictureMean, Segmenter
from course_lib.models.seq2seq import Decoded, Generated, PlainDecoder, Seq2Seq
from course_lib.models.simclr import Projected, SimCLR
from course_lib.models.transformer import DecoderState, Transformer
from course_lib.models.universal import (
    AdaptiveSteps,
    Pondered,
    SeparateSteps,
    SharedSteps,
    Universal,
    repeat_block,
    shared_encoder,
    step_encoding,
)
from course_lib.models.vit import PatchEncoder, ViT

__all__ = [
    "BERT",
    "BYOL",
    "DETR",
    "GAT",
    "GCN",
    "GPT",
    "AdaptiveSteps",
    "BahdanauDecoder",
    "Bootstrapped",
    "BothLanguageModels",
    "CaptionStep",
    "Captioned",
    "Decoded",
    "DecoderState",
    "DeiT",
    "Detected",
    "Document",
    "ELMo",
    "Encoded",
    "Encoder",
    "GATLayer",
    "Generated",
    "Hierarchical",
    "LearnedQueries",
    "LinearMemory",
    "LinearTransformer",
    "LuongDecoder",
    "MaskedWordHead",
    "Mixer",
    "NGram",
    "ObjectBlock",
    "ObjectQueries",
    "PatchEncoder",
    "PictureMean",
    "PlacedSelfAttention",
    "PlainDecoder",
    "PointQueries",
    "Pondered",
    "Pretraining",
    "PretrainingBERT",
    "Projected",
    "ScalarMix",
    "Segmenter",
    "SentenceHead",
    "SeparateSteps",
    "Seq2Seq",
    "SharedSteps",
    "ShowAndTell",
    "ShowAttendAndTell",
    "SimCLR",
    "Span",
    "SpanHead",
    "TagHead",
    "Transformer",
    "TwoAnswers",
    "Universal",
    "ViT",
    "bahdanau_steps",
    "best_span",
    "both_ways",
    "caption_step",
    "classification_head",
    "compose_document",
    "doubly_stochastic_penalty",
    "ema_update",
    "ema_update_",
    "fused_both_ways",
    "generate",
    "generate_recurrently",
    "hoisted_bahdanau_steps",
    "places_of",
    "repeat_block",
    "scalar_mix",
    "shared_encoder",
    "soft_attention",
    "stacked_both_ways",
    "step_encoding",
]
