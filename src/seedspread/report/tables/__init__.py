"""The tables of a report, published values beside its own."""
