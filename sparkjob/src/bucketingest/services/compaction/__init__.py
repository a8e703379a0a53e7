"""Compaction: the base file and the log files of a file slice become one new base file."""
