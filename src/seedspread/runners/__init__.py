"""Runners: the kinds of code that a study can run, each behind one contract (`contract.py`)."""
