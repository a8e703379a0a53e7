"""A table as a whole: properties, schema, partitions, files, and whether it may be written to."""
