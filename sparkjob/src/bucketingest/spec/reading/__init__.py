"""YAML documents to specs, with the line of each problem."""
