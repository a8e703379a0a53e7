"""Spark's checkpoint, made anew at each start from the position that the table has."""
