"""Decisions about a changed spec: it must prove itself by a commit, else the last one that committed runs again."""
