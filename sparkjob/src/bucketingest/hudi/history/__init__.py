"""Hudi's archived history: instants that have left the active timeline."""
