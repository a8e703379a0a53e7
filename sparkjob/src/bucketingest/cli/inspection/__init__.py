"""`bucketingest inspect`: what is read of a table, the report made from it, and how the report is shown."""
