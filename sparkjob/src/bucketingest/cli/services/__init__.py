"""Commands that carry a table service out by hand: compact, clean, archive."""
