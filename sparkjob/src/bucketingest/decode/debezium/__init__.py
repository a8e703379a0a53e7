"""Debezium's change events to rows and deletes: which image of a row counts, and what its values mean."""
