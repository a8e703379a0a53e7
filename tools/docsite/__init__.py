"""The parts of the documentation site that are made from the code: the reference of BucketIngest, measured numbers."""
