"""The same question, asked of several sets of runs."""
