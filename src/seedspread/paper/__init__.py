"""The paper's numbers as data, the check of each against the others, and what the paper adds to a report."""
