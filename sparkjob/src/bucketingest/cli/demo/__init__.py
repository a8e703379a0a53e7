"""`bucketingest demo`: a real ingestion of made-up rows, checked by a reader that shares no code with the writer."""
