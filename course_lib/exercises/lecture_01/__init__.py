"""Exercises of lecture 01, from recurrent networks to the LSTM: for each one, its hints and a bank of answers."""
