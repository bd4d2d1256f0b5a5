"""Training objectives, independent of any model."""

from course_lib.losses.bert_pretraining import (
    Masked,
    Segmented,
    SentencePairs,
    corrupt,
    mask_tokens,
    mlm_loss,
    nsp_pairs,
    segment_input,
)
from course_lib.losses.byol import byol_loss
from course_lib.losses.distillation import distillation_loss, hard_distillation_loss
from course_lib.losses.gathered_nt_xent import gathered_nt_xent
from course_lib.losses.hard_attention import hard_attention_loss
from course_lib.losses.language_model import label_smoothed_loss, next_token_loss, previous_token_loss, teacher_forced_loss
from course_lib.losses.matching import Matching, match, match_greedily, match_in_order
from course_lib.losses.nt_xent import lean_nt_xent, nt_xent
from course_lib.losses.segmentation import dice_loss, focal_loss
from course_lib.losses.set_prediction import BoxWeights, SetLoss, deep_set_loss, matching_cost, set_loss

__all__ = [
    "BoxWeights",
    "Masked",
    "Matching",
    "Segmented",
    "SentencePairs",
    "SetLoss",
    "byol_loss",
    "corrupt",
    "deep_set_loss",
    "dice_loss",
    "distillation_loss",
    "focal_loss",
    "gathered_nt_xent",
    "hard_attention_loss",
    "hard_distillation_loss",
    "label_smoothed_loss",
    "lean_nt_xent",
    "mask_tokens",
    "match",
    "match_greedily",
    "match_in_order",
    "matching_cost",
    "mlm_loss",
    "next_token_loss",
    "nsp_pairs",
    "nt_xent",
    "previous_token_loss",
    "segment_input",
    "set_loss",
    "teacher_forced_loss",
]
