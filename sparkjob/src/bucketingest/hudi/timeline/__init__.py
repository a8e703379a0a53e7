"""The timeline: instants, their content, and which of them count."""
