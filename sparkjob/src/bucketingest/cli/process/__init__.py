"""The command as a process among others: signals, deadlines, Java, children, its last words."""
