"""The paper's numbers as data, the check of each by the others, and what the paper adds to a report."""
