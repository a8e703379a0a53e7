"""Arrow columns as Hudi stores them, and as Avro bytes."""
