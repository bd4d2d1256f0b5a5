"""Extraction: which statements of a notebook answer an exercise."""
