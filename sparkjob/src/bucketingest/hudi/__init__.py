"""The Hudi table format in pure Python: timeline, metadata, file names, table properties, log blocks, rollback."""
