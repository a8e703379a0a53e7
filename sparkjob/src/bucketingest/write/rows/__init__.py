"""What tasks do with rows: shuffle them by file group, buffer, write and publish them; keep those that are rejected."""
