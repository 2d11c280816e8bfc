"""Where the variance of an arm comes from: between seeds, by stream, or from run to run of one seed."""
