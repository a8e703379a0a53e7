"""Deletion of files that no reader needs any more: those of superseded file slices and replaced file groups."""
