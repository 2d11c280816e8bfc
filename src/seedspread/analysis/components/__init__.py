"""Variance components: where the spread of a group comes from."""
