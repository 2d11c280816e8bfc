"""The tables of a report, the paper's values beside its own."""
