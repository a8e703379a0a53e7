"""What the operator shows to Prometheus and to probes."""
