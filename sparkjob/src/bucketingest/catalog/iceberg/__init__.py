"""The table as an Iceberg table: the base files that a query for base files only reads, by metadata alone."""
