"""`bucketingest rollback`."""
