"""Log files: their frame, their blocks, and reading them back."""
