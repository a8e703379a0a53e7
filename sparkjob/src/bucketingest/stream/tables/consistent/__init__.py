"""Commits of many tables that belong together, where commits have whole transactions of the database."""
