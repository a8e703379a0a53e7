"""Avro messages to Arrow columns, with the verdicts of Spark's `from_avro`: many at once, and one by one,
exactly, those that are then doubtful.
"""
