"""Compactions whose base files are made by the pods of a Kubernetes Job: how the holder waits, and what a pod does."""
