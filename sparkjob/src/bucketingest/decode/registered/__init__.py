"""Messages in Confluent's wire format: whatever their encoding, a registry has the schema that each one names."""
