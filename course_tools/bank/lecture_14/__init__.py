"""Exercises of lecture 14, Linear transformers."""
