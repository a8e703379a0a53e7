"""The Kubernetes API: connection, verbs, watched copies, leadership, and the rights that all this needs."""
