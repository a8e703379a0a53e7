"""The Kopf operator that runs BucketIngest resources: observes a table's instants, decides, heals.

It installs only the bare size of `bucketingest` (the spec model) and never imports pyspark.
"""
