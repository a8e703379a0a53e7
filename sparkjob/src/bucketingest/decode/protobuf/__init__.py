"""Protobuf messages to Arrow columns: many at once, and one by one, exactly, those that are then in doubt."""
