"""Rows that a table cannot have: how they are kept beside it, and what becomes of them with their instant."""
