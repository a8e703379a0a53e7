"""The Kubernetes API: connection, verbs, mirrors, leadership, and the rights that they need."""
