"""Runs: sorted, immutable files of entries, and what is done with them: look-up, merge, copies on local disk."""
