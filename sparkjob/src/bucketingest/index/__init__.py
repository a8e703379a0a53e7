"""Where a row belongs: record key, partition path, bucket, file id."""
