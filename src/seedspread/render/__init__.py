"""One table model, one chart model, and their output formats; no statistics."""
