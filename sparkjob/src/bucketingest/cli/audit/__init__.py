"""Whether a table has the rows of the database that it mirrors."""
