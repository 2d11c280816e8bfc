"""What any run is and leaves behind: identity, folder, record, failure, lease, the table of a store."""
