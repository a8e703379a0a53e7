"""Base files: Parquet with meta columns, and in the footer what Hudi's indexes look up keys with."""
