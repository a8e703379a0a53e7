"""What the coordinator does with instants: begin, decide, commit; and read the committed source position."""
