"""The BucketIngest spec: one typed model from which the CRD is made and which the operator and the job read."""
