"""Exercises of lecture 11, Vision Transformer, distillation and fine-tuning."""
