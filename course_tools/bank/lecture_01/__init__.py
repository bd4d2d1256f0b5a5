"""Exercises of lecture 01, Recurrence."""

from course_tools.bank.lecture_01 import bptt_step, carousel_gradient, clip_gradients, lstm_step, rnn_step, train_lstm

EXERCISES = (
    rnn_step.exercise,
    bptt_step.exercise,
    clip_gradients.exercise,
    lstm_step.exercise,
    carousel_gradient.exercise,
    train_lstm.exercise,
)
