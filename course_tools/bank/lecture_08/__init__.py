"""Exercises of lecture 08, Bidirectional pre-training."""
