"""Runners: what can be run in a campaign, each behind one contract (`contract.py`)."""
