"""The paper's question asked again with enough seeds: every run's numbers, and what follows from them."""
