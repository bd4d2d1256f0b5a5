"""Exercises of lecture 13, MLP-Mixer."""
