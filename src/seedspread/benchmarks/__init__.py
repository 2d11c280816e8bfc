"""Speed and memory, as ratios within one process; run by `seedspread bench`."""
