"""What is to be done about a resource, from what was observed of it. Pure: no network, no cluster, no log."""
