"""A table on a local disk or a mounted volume."""
