"""How the rows of a slice become one for each key, as Hudi's readers decide it: on keys and ordering values alone."""
