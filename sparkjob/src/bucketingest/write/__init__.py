"""The write path below Spark: Arrow batches in, committed instants out. Nothing here knows which engine feeds it."""
