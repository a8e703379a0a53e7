"""`bucketingest query`: SQL on a table, without Java: hudi-rs reads it, DataFusion computes. Nothing is written."""
