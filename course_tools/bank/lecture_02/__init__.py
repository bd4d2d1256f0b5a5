"""Exercises of lecture 02, Alignment."""
