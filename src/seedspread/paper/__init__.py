"""The paper's numbers as data, and the check of each against the others."""
