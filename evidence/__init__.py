"""The paper's question asked again with enough seeds: the numbers of every run, and the findings from them.

`page.py`, `gather.py` and `check.py` are scripts.
"""
