"""One resource, many tables: which topics there are, what the next tasks read of each, and a table's own fate."""
