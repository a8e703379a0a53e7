"""What each benchmark compares, on which input, and how it is measured."""
