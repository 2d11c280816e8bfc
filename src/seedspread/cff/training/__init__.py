"""The training of one run: stage 1, the probe, checkpoints, and the result."""
