"""Avro's binary encoding to Arrow, many rows at once. It knows no table and no message: log blocks and Kafka use it."""
