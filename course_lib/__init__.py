"""Mechanisms of recurrent networks, attention, transformers and self-supervision, as the papers define them, in PyTorch."""

__version__ = "0.2.0"
