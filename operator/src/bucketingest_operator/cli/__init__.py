"""Commands for pipelines on Kubernetes; the `bucketingest` command has them if this package is installed."""
