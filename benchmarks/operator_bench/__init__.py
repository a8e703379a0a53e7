"""How the operator does with a thousand resources: against a real API server, with pods that are only played."""
