"""SQL on Arrow columns: those of Spark's expressions whose values here are proven to be Spark's.

Spark parses the SQL, resolves it and inserts the casts; only the resolved expressions are evaluated here. Where Spark
would fail, and where it is not sure what Spark makes of a value, nothing is decided: Spark does the micro-batch.
"""
