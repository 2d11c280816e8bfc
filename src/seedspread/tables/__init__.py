"""From any table to one row per run: reading, reshaping, interpreting and checking it."""
