"""What becomes of instants that were left over: facts of each, one table of decisions, one executor."""
