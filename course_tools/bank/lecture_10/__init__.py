"""Exercises of lecture 10, Local attention."""
