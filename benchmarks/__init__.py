"""Every mechanism against what a user would pick instead: one run, side by side, ratios. `python -m benchmarks`."""
