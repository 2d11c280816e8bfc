"""The question: audit, compare, components, seeds. Joins a table with the statistics and words the answer."""
