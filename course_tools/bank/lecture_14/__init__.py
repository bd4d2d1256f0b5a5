"""Exercises of lecture 14, Linear transformers."""

from course_tools.bank.lecture_14 import (
    causal_linear_attention,
    elu_feature_map,
    favor_features,
    linear_attention,
    linear_attention_step,
    orthogonalised,
    train_linear_transformer,
)

EXERCISES = (
    elu_feature_map.exercise,
    linear_attention.exercise,
    causal_linear_attention.exercise,
    linear_attention_step.exercise,
    favor_features.exercise,
    orthogonalised.exercise,
    train_linear_transformer.exercise,
)
