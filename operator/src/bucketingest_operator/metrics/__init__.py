"""Metrics and health endpoints of the operator."""
