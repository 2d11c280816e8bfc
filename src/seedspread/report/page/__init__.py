"""The page: its order, its one file, the files beside it, and the server that keeps it up to date."""
