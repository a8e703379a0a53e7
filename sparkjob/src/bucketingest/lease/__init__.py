"""Which job of ours holds a table: one writes it at a time, from its start to its end."""
