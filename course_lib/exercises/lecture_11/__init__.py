"""Exercises of lecture 11, Vision Transformer."""
