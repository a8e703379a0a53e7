"""What the job asks Kafka's brokers itself: whether they answer, and whether the topics are still the ones it knows."""
