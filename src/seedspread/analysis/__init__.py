"""The questions: audit, compare, components, seeds, gate. Applies statistics to tables and words answers."""
