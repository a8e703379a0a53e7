"""The parts of the documentation site that are generated: the reference of BucketIngest, measured numbers."""
