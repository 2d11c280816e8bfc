"""The paper's question asked again with enough seeds: every run's numbers, and what follows from them.

`page.py`, `gather.py` and `check.py` are scripts.
"""
