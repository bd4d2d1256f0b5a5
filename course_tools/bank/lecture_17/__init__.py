"""Exercises of lecture 17, The decoder of today."""
