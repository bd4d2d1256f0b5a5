"""Exercises of lecture 15, Attention on graphs."""
