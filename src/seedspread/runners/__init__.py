"""Runners: what can be run in a study, each behind one contract (`contract.py`)."""
