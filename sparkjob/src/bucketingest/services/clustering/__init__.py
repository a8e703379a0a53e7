"""Merging small file groups of a partition into one: an index with a state makes new ones with each micro-batch."""
