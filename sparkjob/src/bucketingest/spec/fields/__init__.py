"""The parts of a BucketIngest's spec, one module each."""
