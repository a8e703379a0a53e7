"""The timeline: instants, what they say, and which of them count."""
