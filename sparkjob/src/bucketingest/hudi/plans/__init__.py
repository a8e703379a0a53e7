"""What table services plan and record on the timeline: what they merge, delete, replace and keep."""
