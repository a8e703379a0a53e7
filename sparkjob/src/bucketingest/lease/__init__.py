"""The lease of a table: one BucketIngest job at a time holds it, from its start to its end."""
