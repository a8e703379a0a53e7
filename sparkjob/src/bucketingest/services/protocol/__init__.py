"""What compaction, clustering and clean have in common: their records, their journal, and who takes which step."""
