"""Hive's metastore: its calls, and how a connection is secured."""
