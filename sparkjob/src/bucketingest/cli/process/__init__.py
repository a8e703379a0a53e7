"""The command as a process: signals, deadlines, Java, children, the termination message."""
