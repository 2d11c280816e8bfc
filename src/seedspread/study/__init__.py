"""A study -> planned runs -> an executor -> the store of results."""
