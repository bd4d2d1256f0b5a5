"""Whole models, one paper a file. Here: sequence to sequence, without attention, by Bahdanau and by Luong."""

from course_lib.models.bahdanau import BahdanauDecoder, bahdanau_steps, hoisted_bahdanau_steps
from course_lib.models.bert import BERT, Pretraining, PretrainingBERT
from course_lib.models.bert_heads import MaskedWordHead, SentenceHead, Span, SpanHead, TagHead, best_span, classification_head
from course_lib.models.byol import BYOL, Bootstrapped, ema_update, ema_update_
from course_lib.models.captioner import (
    Captioned,
    Said,
    ShowAndTell,
    ShowAttendAndTell,
    caption_step,
    doubly_stochastic_penalty,
    soft_attention,
)
from course_lib.models.checkpoints import Checkpoint, read_checkpoint
from course_lib.models.decoding import Beam, Extension, beam_search, extend_beam, greedy, rows_of
from course_lib.models.deit import DeiT, TwoAnswers
from course_lib.models.detr import (
    DETR,
    Asked,
    Detected,
    LearnedQueries,
    ObjectBlock,
    PlacedSelfAttention,
    PointQueries,
    places_of,
)
from course_lib.models.elmo import BothLanguageModels, ELMo, ScalarMix, scalar_mix
from course_lib.models.encoder import Encoded, Encoder, both_ways, fused_both_ways, stacked_both_ways
from course_lib.models.fine_tuning import fine_tuned_head, zero_head
from course_lib.models.gat import GAT, GATLayer
from course_lib.models.gcn import GCN
from course_lib.models.gpt import GPT, generate
from course_lib.models.gpt_decoding import Cache, CachedGPT, cached_generate
from course_lib.models.halting import Stepped, adaptive_step, halting_distribution, mix_states, ponder_cost
from course_lib.models.hierarchical import Document, Hierarchical, compose_document
from course_lib.models.linear_transformer import LinearMemory, LinearTransformer, generate_recurrently
from course_lib.models.luong import LuongDecoder
from course_lib.models.mixer import Mixer, MixerSizes
from course_lib.models.ngram import NGram
from course_lib.models.probe import Probe, linear_probe, spectrum
from course_lib.models.prompting import few_shot_prompt
from course_lib.models.sampling import next_word_probabilities, sample, top_k, top_p
from course_lib.models.scale import (
    BERT_BASE,
    BERT_LARGE,
    GPT_1,
    GPT_2,
    GPT_3,
    TRANSFORMER_BASE,
    TRANSFORMER_BIG,
    bert_parameters,
    block_parameters,
    gpt_parameters,
    training_operations,
    transformer_parameters,
    xlnet_parameters,
)
from course_lib.models.segmenter import PictureMean, Segmenter
from course_lib.models.seq2seq import Decoded, PlainDecoder, Seq2Seq, Spoken
from course_lib.models.simclr import Projected, SimCLR
from course_lib.models.transformer import Transformer, Writing
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
from course_lib.models.vision_scale import (
    MIXER_BASE,
    MIXER_HUGE,
    MIXER_LARGE,
    MIXER_SMALL,
    VIT_BASE,
    VIT_HUGE,
    VIT_LARGE,
    mixer_parameters,
    vit_parameters,
)
from course_lib.models.vit import PatchEncoder, ViT

__all__ = [
    "BERT",
    "BERT_BASE",
    "BERT_LARGE",
    "BYOL",
    "DETR",
    "GAT",
    "GCN",
    "GPT",
    "GPT_1",
    "GPT_2",
    "GPT_3",
    "MIXER_BASE",
    "MIXER_HUGE",
    "MIXER_LARGE",
    "MIXER_SMALL",
    "TRANSFORMER_BASE",
    "TRANSFORMER_BIG",
    "VIT_BASE",
    "VIT_HUGE",
    "VIT_LARGE",
    "AdaptiveSteps",
    "Asked",
    "BahdanauDecoder",
    "Beam",
    "Bootstrapped",
    "BothLanguageModels",
    "Cache",
    "CachedGPT",
    "Captioned",
    "Checkpoint",
    "Decoded",
    "DeiT",
    "Detected",
    "Document",
    "ELMo",
    "Encoded",
    "Encoder",
    "Extension",
    "GATLayer",
    "Hierarchical",
    "LearnedQueries",
    "LinearMemory",
    "LinearTransformer",
    "LuongDecoder",
    "MaskedWordHead",
    "Mixer",
    "MixerSizes",
    "NGram",
    "ObjectBlock",
    "PatchEncoder",
    "PictureMean",
    "PlacedSelfAttention",
    "PlainDecoder",
    "PointQueries",
    "Pondered",
    "Pretraining",
    "PretrainingBERT",
    "Probe",
    "Projected",
    "Said",
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
    "Spoken",
    "Stepped",
    "TagHead",
    "Transformer",
    "TwoAnswers",
    "Universal",
    "ViT",
    "Writing",
    "adaptive_step",
    "bahdanau_steps",
    "beam_search",
    "bert_parameters",
    "best_span",
    "block_parameters",
    "both_ways",
    "cached_generate",
    "caption_step",
    "classification_head",
    "compose_document",
    "doubly_stochastic_penalty",
    "ema_update",
    "ema_update_",
    "extend_beam",
    "few_shot_prompt",
    "fine_tuned_head",
    "fused_both_ways",
    "generate",
    "generate_recurrently",
    "gpt_parameters",
    "greedy",
    "halting_distribution",
    "hoisted_bahdanau_steps",
    "linear_probe",
    "mix_states",
    "mixer_parameters",
    "next_word_probabilities",
    "places_of",
    "ponder_cost",
    "read_checkpoint",
    "repeat_block",
    "rows_of",
    "sample",
    "scalar_mix",
    "shared_encoder",
    "soft_attention",
    "spectrum",
    "stacked_both_ways",
    "step_encoding",
    "top_k",
    "top_p",
    "training_operations",
    "transformer_parameters",
    "vit_parameters",
    "xlnet_parameters",
    "zero_head",
]
