"""From a message's bytes to Arrow columns, in the process that also writes them. A format has a package of its own."""
