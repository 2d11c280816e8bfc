"""One run: randomness, stage 1, the probe, checkpoints, and what is left behind."""
