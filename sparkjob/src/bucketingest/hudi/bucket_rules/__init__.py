"""Rules of Hudi's partition-level bucket index, by which partitions of one table have different bucket counts."""
