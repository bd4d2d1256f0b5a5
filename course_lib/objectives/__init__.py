"""Losses; they know no model."""

from course_lib.objectives.average_precision import average_precision, find_hits, mean_average_precision
from course_lib.objectives.bootstrap import byol_loss
from course_lib.objectives.contrastive import lean_nt_xent, nt_xent
from course_lib.objectives.cosine import unit
from course_lib.objectives.distillation import distillation_loss, hard_distillation_loss
from course_lib.objectives.gathered import gathered_nt_xent
from course_lib.objectives.hard_attention import hard_attention_loss
from course_lib.objectives.language import next_token_loss, previous_token_loss, teacher_forced_loss
from course_lib.objectives.matching import Matching, match, match_greedily, match_in_order
from course_lib.objectives.pretraining import (
    Masked,
    Segmented,
    SentencePairs,
    corrupt,
    mask_tokens,
    mlm_loss,
    nsp_pairs,
    segment_input,
)
from course_lib.objectives.set_prediction import BoxWeights, SetLoss, deep_set_loss, matching_cost, set_loss

__all__ = [
    "BoxWeights",
    "Masked",
    "Matching",
    "Segmented",
    "SentencePairs",
    "SetLoss",
    "average_precision",
    "byol_loss",
    "corrupt",
    "deep_set_loss",
    "distillation_loss",
    "find_hits",
    "gathered_nt_xent",
    "hard_attention_loss",
    "hard_distillation_loss",
    "lean_nt_xent",
    "mask_tokens",
    "match",
    "match_greedily",
    "match_in_order",
    "matching_cost",
    "mean_average_precision",
    "mlm_loss",
    "next_token_loss",
    "nsp_pairs",
    "nt_xent",
    "previous_token_loss",
    "segment_input",
    "set_loss",
    "teacher_forced_loss",
    "unit",
]
