"""The source `files`: which files there are, which of them a micro-batch takes, and the loop that has it written. What
was taken is kept beside the table, so nothing depends on a checkpoint of Spark.
"""
