"""Intake: the submitted files, and which student each notebook belongs to."""
