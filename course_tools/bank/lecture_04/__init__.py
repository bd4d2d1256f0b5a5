"""Exercises of lecture 04, Self-attention."""
