"""JSON messages to Arrow columns, with the verdicts of Spark's `from_json`: in blocks where both agree for certain, and
row by row, exactly, everywhere else.
"""
