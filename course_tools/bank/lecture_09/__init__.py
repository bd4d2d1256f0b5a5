"""Exercises of lecture 09, Attention over pixels: non-local blocks."""
