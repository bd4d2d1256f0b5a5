"""Exercises of lecture 16, Self-supervision."""
