"""The paper: its numbers as data, their check, its additions to a report, and the quickstart."""
