"""JSON messages to Arrow columns: by position where messages are alike, with msgspec everywhere else."""
