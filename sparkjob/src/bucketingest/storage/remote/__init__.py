"""Tables in object stores, through obstore."""
