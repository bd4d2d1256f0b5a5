"""Intake: what was handed in, and whose notebook is which."""
