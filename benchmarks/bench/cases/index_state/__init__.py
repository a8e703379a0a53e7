"""An index with a state against its targets, our bucket index, and Hudi's indexes."""
