"""The studies that are shipped with the paper's training, as TOML files."""
