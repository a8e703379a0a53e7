"""Catalogs in which engines find the table by its name: what is registered there, and the calls that register it."""
