"""Results that other tools have written, read into one table: one row per run."""
