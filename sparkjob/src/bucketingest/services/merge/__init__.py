"""Merging: the base file and the log files of one file slice become a new base file, in bounded memory."""
