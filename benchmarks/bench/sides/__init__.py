"""The two sides of a comparison: a process each, with one Spark session, that runs the tasks it is sent."""
