"""Recovery of instants that attempts left: facts of each, one table of decisions, one executor."""
