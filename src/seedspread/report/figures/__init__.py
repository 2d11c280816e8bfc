"""The figures of a report, as charts."""
