"""What change events of Debezium, and tables without a key, cost beside plain messages in a whole job: rows a second
from a broker to the commit, in turns in one Spark session, all messages of a topic in one micro-batch.

Run it with PYTHONPATH=tests:benchmarks:tools from the project's folder, after `make test-deps`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.cases.comparison import row_count
from bench.sides.client import Run
from bench.sides.start import start_ours
from devservers.kafka import KafkaBroker
from devservers.produce import produce
from devservers.registry import SchemaRegistry
from events_beside_plain import PLACE, WITH_PLACE, Form, avro_forms, json_forms
from support.decoding.registered_avro import header

DDL: Final = "id BIGINT, customer STRING, amount DOUBLE, quantity BIGINT, paid BOOLEAN, note STRING, at TIMESTAMP"
ENVELOPES: Final = {
    "Debezium, no schema": "debezium",
    "Debezium, with schema": "debezium",
    "Debezium, flat": "debeziumFlat",
    "Debezium, Avro": "debezium",
}
FORMS: Final = {
    "json": ("plain JSON", *list(ENVELOPES)[:3], WITH_PLACE, "plain JSON, appended"),
    "avro": ("plain Avro", "Debezium, Avro"),
}
PARTITIONS: Final = 2
_ID_BYTES: Final = len(header(1))


def main() -> None:
    """Print a row for each form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--encoding", choices=tuple(FORMS), default="json")
    given = parser.parse_args()
    names = FORMS[given.encoding]
    runs: dict[str, list[Run]] = {name: [] for name in names}
    with TemporaryDirectory() as name, KafkaBroker(Path(name) / "kafka") as broker, SchemaRegistry() as registry:
        folder, forms = Path(name), (json_forms if given.encoding == "json" else avro_forms)(given.rows)
        for at, each in enumerate(names):
            broker.create_topic(f"t{at}", partitions=PARTITIONS)
            values = forms[each].values
            if forms[each].schema:
                id_ = registry.register(f"t{at}-value", forms[each].schema)
                values = [header(id_) + value[_ID_BYTES:] for value in values]
            produce(broker.bootstrap_servers, f"t{at}", ((b'{"id":%d}' % key, text) for key, text in enumerate(values)))
        with start_ours(folder) as ours:
            for number in range(given.repetitions + 1):
                for at, each in enumerate(names):
                    source = {"bootstrapServers": broker.bootstrap_servers, "topics": [f"t{at}"]}
                    resource = _resource(folder / f"table-{at}", number, each, source, registry.url)
                    run = ours.measure(op="write", resource=resource)
                    print(f"  {each}: {run.seconds:.2f} s, {run.cpu_seconds:.2f} s CPU", file=sys.stderr, flush=True)
                    if number:  # the first one loads the table, and warms all up
                        runs[each].append(run)
        for at in range(len(names)):
            assert row_count(folder / f"table-{at}") == given.rows, "each message is a row"
    _show(given.rows, forms, runs)


def _show(rows: int, forms: dict[str, Form], runs: dict[str, list[Run]]) -> None:
    rates = {name: rows / statistics.median(run.seconds for run in of) for name, of in runs.items()}
    costs = {name: statistics.median(run.cpu_seconds for run in of) for name, of in runs.items()}
    print("| messages | bytes of one | rows a second | of the plain form | CPU µs a row | of the plain form |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, rate in rates.items():
        plain, size = forms[name].plain, len(forms[name].values[-1])
        cost, ratio = costs[name], costs[plain] / costs[name]
        print(f"| {name} | {size} | {rate:,.0f} | {rate / rates[plain]:.2f} | {cost / rows * 1e6:.2f} | {ratio:.2f} |")


def _resource(table: Path, number: int, form: str, source: dict[str, Any], registry: str) -> dict[str, Any]:
    format_: dict[str, Any] = {"type": "json", "schema": DDL}
    if "Avro" in form:
        format_ = {"type": "avro", "registry": {"url": registry}}
    if form in ENVELOPES:
        format_["envelope"] = {"type": ENVELOPES[form]}
    key = {} if "appended" in form else {"recordKey": ["id"]}
    if form == WITH_PLACE or not key:
        source = source | {"columns": PLACE}
    spec = {
        "source": {"kafka": source | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 1_000_000_000}},
        "format": format_,
        "table": {"path": str(table), **key, "index": {"buckets": 8}},
        "checkpoint": {"path": str(table.with_name(f"{table.name}-checkpoint-{number}"))},
        "services": {"mode": "off"},
    }
    head = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest"}
    return {**head, "metadata": {"name": f"bench-{number}"}, "spec": spec}


if __name__ == "__main__":
    main()
