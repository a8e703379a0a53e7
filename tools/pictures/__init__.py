"""The pictures of the README, from a pipeline that really runs: `python -m pictures`."""
