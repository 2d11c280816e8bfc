"""From a table as it comes to one row per run: how it is read, shaped, understood and checked."""
