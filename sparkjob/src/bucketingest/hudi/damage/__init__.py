"""Data files that a commit names and that are gone, or were cut: no read has their rows any more."""
