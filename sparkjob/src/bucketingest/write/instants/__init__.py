"""What the coordinator does with instants: begin, decide, commit; and tell how far the source is in the table."""
