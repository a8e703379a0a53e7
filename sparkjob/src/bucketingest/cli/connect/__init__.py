"""`validate --connect`: whether everything that a run needs is there, before a run is started or replaced."""
