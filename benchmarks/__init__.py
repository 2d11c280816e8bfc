"""Speed, memory and simulations: what we measure about ourselves, each by `python benchmarks/NAME.py`."""
