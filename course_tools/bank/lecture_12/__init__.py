"""Exercises of lecture 12, detection."""
