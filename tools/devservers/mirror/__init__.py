"""Databases whose tables are mirrored, and Debezium, which reads their changes."""
