"""How the value of a Kafka record is decoded, and the registry that has its schemas."""
