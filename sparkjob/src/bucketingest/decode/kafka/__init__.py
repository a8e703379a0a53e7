"""Kafka messages straight from the brokers into a task, by librdkafka: without it each one is an object of the JVM."""
