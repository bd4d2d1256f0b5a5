"""Models, one file each."""

from course_lib.models.bahdanau import BahdanauDecoder, bahdanau_steps, hoisted_bahdanau_steps
from course_lib.models.bert import BERT, Pretraining, PretrainingBERT
from course_lib.models.bert_heads import MaskedWordHead, SentenceHead, Span, SpanHead, TagHead, best_span, classification_head
from course_lib.models.bigru_encoder import (
    Encoded,
    Encoder,
    bidirectional_gru,
    fused_bidirectional_gru,
    stacked_bidirectional_gru,
)
from course_lib.models.byol import BYOL, Bootstrapped, ema_update, ema_update_
from course_lib.models.captioner import (
    AttentiveState,
    Captioned,
    CaptionStep,
    ShowAndTell,
    ShowAttendAndTell,
    caption_step,
    doubly_stochastic_penalty,
    soft_attention,
)
from course_lib.models.deit import DeiT, DeiTLogits
from course_lib.models.detr import (
    DETR,
    Detected,
    LearnedQueries,
    ObjectBlock,
    ObjectQueries,
    PointQueries,
    PositionalSelfAttention,
    sinusoidal_positions_2d,
)
from course_lib.models.detr_masks import AttentionMaps, DetectedMasks, DETRWithMasks, MaskHead, ObjectFeatures, read_objects
from course_lib.models.elmo import BidirectionalLogits, ELMo, ScalarMix, scalar_mix
from course_lib.models.gat import GAT, GATLayer
from course_lib.models.gcn import GCN
from course_lib.models.gpt import GPT, GPTState
from course_lib.models.hierarchical import Hierarchical, PooledDocument, compose_document
from course_lib.models.kneser_ney import KneserNey
from course_lib.models.linear_transformer import LinearMemory, LinearTransformer
from course_lib.models.luong import LuongDecoder
from course_lib.models.luong_local_decoder import LocalLuongDecoder
from course_lib.models.mixer import Mixer
from course_lib.models.ngram import NGram
from course_lib.models.segmenter import GlobalAverage, Segmenter
from course_lib.models.seq2seq import Decoded, PlainDecoder, Seq2Seq, Seq2SeqState
from course_lib.models.simclr import Projected, SimCLR
from course_lib.models.transformer import DecoderState, Transformer
from course_lib.models.transformer_xl import SegmentMemory, TransformerXL
from course_lib.models.universal import (
    AdaptiveSteps,
    SeparateSteps,
    SharedSteps,
    Universal,
    UniversalOutput,
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
    "AttentionMaps",
    "AttentiveState",
    "BahdanauDecoder",
    "BidirectionalLogits",
    "Bootstrapped",
    "CaptionStep",
    "Captioned",
    "DETRWithMasks",
    "Decoded",
    "DecoderState",
    "DeiT",
    "DeiTLogits",
    "Detected",
    "DetectedMasks",
    "ELMo",
    "Encoded",
    "Encoder",
    "GATLayer",
    "GPTState",
    "GlobalAverage",
    "Hierarchical",
    "KneserNey",
    "LearnedQueries",
    "LinearMemory",
    "LinearTransformer",
    "LocalLuongDecoder",
    "LuongDecoder",
    "MaskHead",
    "MaskedWordHead",
    "Mixer",
    "NGram",
    "ObjectBlock",
    "ObjectFeatures",
    "ObjectQueries",
    "PatchEncoder",
    "PlainDecoder",
    "PointQueries",
    "PooledDocument",
    "PositionalSelfAttention",
    "Pretraining",
    "PretrainingBERT",
    "Projected",
    "ScalarMix",
    "SegmentMemory",
    "Segmenter",
    "SentenceHead",
    "SeparateSteps",
    "Seq2Seq",
    "Seq2SeqState",
    "SharedSteps",
    "ShowAndTell",
    "ShowAttendAndTell",
    "SimCLR",
    "Span",
    "SpanHead",
    "TagHead",
    "Transformer",
    "TransformerXL",
    "Universal",
    "UniversalOutput",
    "ViT",
    "bahdanau_steps",
    "best_span",
    "bidirectional_gru",
    "caption_step",
    "classification_head",
    "compose_document",
    "doubly_stochastic_penalty",
    "ema_update",
    "ema_update_",
    "fused_bidirectional_gru",
    "hoisted_bahdanau_steps",
    "read_objects",
    "repeat_block",
    "scalar_mix",
    "shared_encoder",
    "sinusoidal_positions_2d",
    "soft_attention",
    "stacked_bidirectional_gru",
    "step_encoding",
]
