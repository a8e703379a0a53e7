"""Dead letters that are rows after a mend: read again from their topic, in one commit, older than what came since."""
