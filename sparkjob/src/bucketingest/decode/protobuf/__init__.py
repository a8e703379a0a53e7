"""Protobuf messages to Arrow columns, with the verdicts of Spark's `from_protobuf`."""
