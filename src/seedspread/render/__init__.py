"""Tables and charts, said once and written in every form; knows nothing of what stands in them."""
