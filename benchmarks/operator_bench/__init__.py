"""Measures the operator with a thousand resources: against a real API server, with simulated pods."""
