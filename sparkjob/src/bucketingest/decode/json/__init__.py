"""JSON messages to Arrow columns: in blocks where nothing is in doubt, and one by one, exactly, everywhere else."""
