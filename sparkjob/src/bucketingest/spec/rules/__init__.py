"""What must hold between fields of a spec, a module for each part of it: in Python, and in CEL for the API server."""
