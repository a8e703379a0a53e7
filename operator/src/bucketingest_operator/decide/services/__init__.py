"""Decisions about table services: the Job of a compaction, and whether the table is served in time."""
