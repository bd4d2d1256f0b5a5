"""Every mechanism compared with its usual alternative, in one run, as ratios. `python -m benchmarks`."""
