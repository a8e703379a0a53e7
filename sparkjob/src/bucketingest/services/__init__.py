"""Table services: the work that keeps a table fast to read and bounded in size."""
