"""Statistics of spread on a tidy table of per-seed results; needs no torch, nothing of the training side."""
