"""Exercises of lecture 19, Attention as an algorithm: exact, and cheaper."""
