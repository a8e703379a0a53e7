"""Benchmarks side by side with Hudi's own Spark writer: the same input, the same machine, one run, in turns."""
