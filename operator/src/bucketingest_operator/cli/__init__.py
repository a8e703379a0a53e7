"""Commands for people who look after pipelines on Kubernetes; the `bucketingest` command has them where this package is
installed.
"""
