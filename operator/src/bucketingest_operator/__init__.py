"""The Kopf operator that runs BucketIngest resources: observes a table's instants, decides, heals.

It installs only the bare size of `bucketingest` (the spec model) and never imports pyspark.
"""

from bucketingest.spec.model import API_GROUP, API_VERSION, KIND

__all__ = ["API_GROUP", "API_VERSION", "KIND"]
