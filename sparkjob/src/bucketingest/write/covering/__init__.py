"""The index's state beside the table's files: which of them it knows, and what it must read before a plan."""
