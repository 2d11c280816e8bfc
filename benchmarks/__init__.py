"""Benchmarks of speed and memory, and simulations of error rates; run each by `python benchmarks/NAME.py`."""
