"""One table model and one chart model, and their output formats; knows nothing of statistics."""
