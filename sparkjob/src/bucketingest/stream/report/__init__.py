"""What a job says about itself: progress, metrics, endpoints."""
