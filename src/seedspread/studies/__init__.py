"""The shipped studies, as TOML files."""
