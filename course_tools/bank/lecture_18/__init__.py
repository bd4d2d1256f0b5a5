"""Exercises of lecture 18, A memory of fixed size."""
