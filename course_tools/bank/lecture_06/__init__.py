"""Exercises of lecture 06, Universal Transformer."""
