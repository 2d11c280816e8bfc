"""Results of other tools, read into one table with one row per run."""
