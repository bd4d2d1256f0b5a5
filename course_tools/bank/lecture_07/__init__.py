"""Exercises of lecture 07, Generative pre-training."""

from course_tools.bank.lecture_07 import cached_step, few_shot_prompt, gpt_parameters, next_token_loss, top_k, top_p, train_gpt

EXERCISES = (
    next_token_loss.exercise,
    top_k.exercise,
    top_p.exercise,
    cached_step.exercise,
    gpt_parameters.exercise,
    few_shot_prompt.exercise,
    train_gpt.exercise,
)
