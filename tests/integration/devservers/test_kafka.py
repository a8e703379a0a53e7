import pytest
from confluent_kafka import Consumer

from devservers.kafka import KafkaBroker
from devservers.produce import ProduceError, produce

pytestmark = pytest.mark.kafka

READ_TIMEOUT_S = 30.0


def read(broker: KafkaBroker, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(count, timeout=READ_TIMEOUT_S)
        assert [message.error() for message in messages] == [None] * len(messages)
        return [(message.key(), message.value()) for message in messages]
    finally:
        consumer.close()


def test_messages_come_back_in_the_order_they_were_produced_in(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("in-order", partitions=1)
    messages: list[tuple[bytes | None, bytes | None]]
    messages = [(f"key {number}".encode(), f"value {number}".encode()) for number in range(1000)]
    messages.append((b"key 0", None))

    assert produce(kafka_broker.bootstrap_servers, "in-order", iter(messages)) == 1001
    assert read(kafka_broker, "in-order", 1001) == messages


def test_a_message_the_broker_refuses_is_reported(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("small-messages", config={"max.message.bytes": "1000"})

    with pytest.raises(ProduceError, match="small-messages"):
        produce(kafka_broker.bootstrap_servers, "small-messages", [(None, b"x" * 2000)])
