"""Tables in which a key is in one partition only: where it is, and what happens when it moves."""
