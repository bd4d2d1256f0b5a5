"""Exercises of lecture 03, Looking and reading."""
