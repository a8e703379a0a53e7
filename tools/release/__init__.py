"""Makes what a release consists of, into one folder. It publishes nothing."""
