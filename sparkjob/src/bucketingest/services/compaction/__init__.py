"""Compaction: which file slices are merged, and how that becomes a commit whatever else happens to the table."""
