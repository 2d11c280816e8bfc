"""What the paper adds to a report: its printed values beside one's own, its tables, its words."""
