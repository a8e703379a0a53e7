"""Cases of table services: compaction, clean and archive beside Hudi's own, and at a large scale."""
