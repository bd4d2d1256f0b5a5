"""Exercises of lecture 05, The Transformer."""
