"""Avro messages to Arrow columns, with the verdicts of Spark's `from_avro`: many at once, and byte by byte, exactly, what
is then doubtful.
"""
