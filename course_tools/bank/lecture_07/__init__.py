"""Exercises of lecture 07, Generative pre-training."""
