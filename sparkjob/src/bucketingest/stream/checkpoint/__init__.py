"""Spark's checkpoint, made at each start from the table's position."""
