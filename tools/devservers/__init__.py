"""Real servers for tests, demo and benchmarks: a Kafka broker and an S3 store on 127.0.0.1, started and surely stopped.

Not part of the `bucketingest` distribution: the job never starts a server. `python -m devservers` runs any command
with the servers it asks for.
"""
