"""What a pipeline does with messages that come at a steady rate."""
