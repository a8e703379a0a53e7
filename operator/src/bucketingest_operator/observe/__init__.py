"""Observations of a resource and its pods, Jobs and driver, as values for a decision."""
