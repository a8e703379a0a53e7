"""The inputs of a case that upserts rows: as files, and as messages in Kafka."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.cases.comparison import Options, Sources, make_input
from bench.data import Dataset
from bench.messages import Encoding, messages
from bench.sides.start import Source
from devservers.kafka import KafkaBroker
from devservers.produce import produce

TOPIC_PARTITIONS: Final = 4


@contextlib.contextmanager
def in_kafka(dataset: Dataset, sources: Sources, encoding: Encoding, options: Options) -> Iterator[Sources]:
    """The inputs (warm-up, measured, wake-up) as messages in topics of their own broker; the first load too, where the
    messages' columns have other types than the files'.
    """
    folder = options.scratch / "kafka"
    shutil.rmtree(folder, ignore_errors=True)
    with KafkaBroker(folder, heap="1g") as broker:

        def topic(name: str, source: Source) -> Source:
            broker.create_topic(name, partitions=TOPIC_PARTITIONS)
            produce(broker.bootstrap_servers, name, messages(Path(source.path), dataset, encoding))
            return Source("kafka", bootstrap=broker.bootstrap_servers, topic=name, encoding=encoding)

        yield Sources(
            topic("load", sources.load) if encoding == "protobuf" else sources.load,
            topic("warm-up", sources.warm_up),
            topic("rows", sources.measured),
            topic("wake-up", sources.wake_up),
        )
    shutil.rmtree(folder)


def make_inputs(dataset: Dataset, options: Options) -> tuple[Sources, float]:
    """Inputs with the same keys and other values, and the bytes of a row in Arrow's form."""
    counts = (options.rows, options.rows, options.rows, max(1, options.rows // 10))
    folders = [options.scratch / "input" / f"{dataset.name}-{rows}-{seed}" for seed, rows in enumerate(counts)]
    sizes = [
        make_input(dataset, folder, rows, seed) for seed, (folder, rows) in enumerate(zip(folders, counts, strict=True))
    ]
    return Sources(*(Source("files", path=str(folder / "rows")) for folder in folders)), sizes[2]
