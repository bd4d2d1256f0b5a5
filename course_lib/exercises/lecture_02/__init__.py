"""Lecture 02, from the encoder-decoder to attention: answers to its exercises, wrong and right."""
