"""Exercises of lecture 01, Recurrence."""
