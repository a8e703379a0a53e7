"""Keys that move from one partition to another, in a table in which a key is in one partition only."""
