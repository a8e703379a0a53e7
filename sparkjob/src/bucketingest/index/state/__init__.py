"""The state of an index without buckets: which file group holds which key, as a cache of what the table's files say."""
