"""What a report is made of: settings with their runs, audits and layers, whatever they come from."""
