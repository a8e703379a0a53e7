"""Decides what to do about a resource, from an observation. Pure: no network, no cluster, no log."""
