"""Messages of one producer mostly have the same members in the same order: those are read by position, all at once."""
