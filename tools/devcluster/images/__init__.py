"""Images: the project's own, and those they are built from."""
