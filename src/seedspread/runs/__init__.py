"""Runs and what they leave behind: identity, folder, record, failure, lease, the table of a store."""
