"""From RNNs to attention, transformers and self-supervision: a reference implementation of every mechanism of the course."""
