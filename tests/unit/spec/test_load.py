import re
from pathlib import Path

import pytest

from bucketingest.spec.errors import Problem, SpecError, format_problem
from bucketingest.spec.reading.load import load_file, load_text, parse_object

HEAD = "apiVersion: bucketingest.dev/v1alpha1\nkind: BucketIngest\nmetadata: {name: demo}\n"
RIGHT = HEAD + "spec:\n  source: {rate: {rowsPerSecond: 5}}\n  table:\n    path: /tmp/t\n    recordKey: [value]\n"


def messages(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_text(text, "demo.yaml")
    return str(caught.value).split("\n")


def test_a_right_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text("\ufeff" + RIGHT, encoding="utf-8")
    assert load_file(path).metadata.name == "demo"


@pytest.mark.parametrize("written", ["off", '"off"', "Off"])
def test_off_is_off_with_and_without_quotes(written: str) -> None:
    text = RIGHT + f"  services: {{mode: {written}}}\n"
    assert load_text(text).spec.services.mode == "off"
    assert load_text(load_text(text).to_yaml()).spec.services.mode == "off"


def test_on_is_no_mode() -> None:
    assert "spec.services.mode" in messages(RIGHT + "  services: {mode: on}\n")[0]


def test_a_message_has_file_line_field_what_is_wrong_and_what_is_allowed() -> None:
    problem = Problem("spec.table.index.buckets", "is 0", "an integer from 1 to 99999999", 12)
    assert format_problem("orders.yaml", problem) == (
        "orders.yaml:12: spec.table.index.buckets: is 0; allowed: an integer from 1 to 99999999"
    )
    assert format_problem("", Problem("kind", "is required")) == "kind: is required"
    assert format_problem("a.yaml", Problem("", "is empty")) == "a.yaml: is empty"


def test_a_wrong_value_is_reported_with_the_line_of_its_name() -> None:
    assert messages(RIGHT + "    index:\n      buckets:\n        0\n") == [
        "demo.yaml:10: spec.table.index.buckets: is 0; allowed: an integer from 1 to 99999999"
    ]


def test_a_wrong_type_is_reported() -> None:
    assert messages(RIGHT + "    partitionBy: region\n  commit: [5s]\n  suspend: 'yes'\n") == [
        (
            'demo.yaml:9: spec.table.partitionBy: is "region"; allowed: a list of 0 to 8 items, each a column name of '
            "letters, digits and _, at most 128 characters"
        ),
        (
            "demo.yaml:10: spec.commit: is a list; allowed: fields mode, interval, trigger, maxFiles, at, "
            "transactionTopic, transactionWait, maxRetries"
        ),
        'demo.yaml:11: spec.suspend: is "yes"; allowed: true or false',
    ]


def test_a_wrong_word_is_reported_with_the_allowed_ones() -> None:
    assert messages(RIGHT + "  commit:\n    mode: batch\n    trigger: never\n") == [
        'demo.yaml:10: spec.commit.mode: is "batch"; allowed: interval or checkpoint',
        (
            'demo.yaml:11: spec.commit.trigger: is "never"; allowed: once, or a duration from 0s to 1h, such as 30s, '
            "5m or 1h30m"
        ),
    ]


def test_an_unknown_field_is_reported_with_the_nearest_name() -> None:
    assert messages(RIGHT + "    index: {bucket: 4}\n    ordering_field: x\n  restart: {foo: 1}\n") == [
        (
            "demo.yaml:9: spec.table.index.bucket: is not a known field (did you mean buckets?); allowed: type, "
            "buckets, partitionBuckets, hashFields, hash, targetFileSize, inserts, global or onDuplicateKeys"
        ),
        (
            "demo.yaml:10: spec.table.ordering_field: is not a known field (did you mean orderingField?); allowed: "
            "path, name, pipeline, recordKey, partitionBy, hiveStylePartitioning, orderingField, deleteWhen, version, "
            "index, logBlock, metadataTable, memoryPerTask, writeTasks, lock or properties"
        ),
        (
            "demo.yaml:11: spec.restart.foo: is not a known field; allowed: maxFailures, window, unreachableAfter or "
            "maintenanceWindows"
        ),
    ]


def test_a_missing_field_is_reported_with_the_line_of_what_lacks_it() -> None:
    assert messages(HEAD + "spec:\n  source: {rate: {}}\n  table:\n    recordKey: [value]\n") == [
        "demo.yaml:5: spec.source.rate.rowsPerSecond: is required; allowed: an integer from 1 to 10000000",
        (
            "demo.yaml:6: spec.table.path: is required; allowed: an absolute local path or a URL with the scheme "
            "file, s3, s3a, gs, abfss or az, with a path and without a slash at its end, such as s3://lake/orders"
        ),
    ]


def test_a_document_without_kind_and_version_is_reported() -> None:
    assert messages("metadata: {name: demo}\nspec: {}\n")[:2] == [
        "demo.yaml:1: apiVersion: is required; allowed: bucketingest.dev/v1alpha1",
        "demo.yaml:1: kind: is required; allowed: BucketIngest",
    ]


def test_another_api_version_is_reported() -> None:
    assert messages(RIGHT.replace("v1alpha1", "v2")) == [
        'demo.yaml:1: apiVersion: is "bucketingest.dev/v2"; allowed: bucketingest.dev/v1alpha1'
    ]


def test_all_problems_are_reported_together_in_the_order_of_their_lines() -> None:
    text = RIGHT.replace("name: demo", "name: Demo").replace("[value]", "[value, value]") + "    version: 6\n"
    assert messages(text) == [
        (
            "demo.yaml:3: metadata.name: is \"Demo\"; allowed: lower-case letters, digits and '-', starting "
            "with a letter, at most 52 characters"
        ),
        "demo.yaml:8: spec.table.recordKey[1]: names value a second time; allowed: each name once",
        "demo.yaml:9: spec.table.version: is 6; allowed: 8 or 9",
    ]


def test_broken_yaml_is_reported_with_its_line() -> None:
    assert messages(HEAD + "spec:\n  source: {rate\n  table: x: y\n") == [
        "demo.yaml:6: is not valid YAML: while parsing a flow mapping, expected ',' or '}', but got ':'"
    ]
    assert messages("a: b\n\tc: d\n") == [
        (
            "demo.yaml:2: is not valid YAML: while scanning for the next token, found character '\\t' that cannot "
            "start any token"
        )
    ]
    assert messages("a: b\nc: \x07\n") == ["demo.yaml:2: is not valid YAML: character U+0007 is not allowed"]


def test_a_name_given_twice_is_reported() -> None:
    assert messages(RIGHT + "    path: /tmp/other\n") == [
        "demo.yaml:9: spec.table.path: is given a second time, first in line 7; allowed: each name once"
    ]


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(SpecError, match=re.escape(f"{path}: there is no such file; check the path")):
        load_file(path)


def test_a_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read: Is a directory"):
        load_file(tmp_path)


def test_bytes_that_are_not_text_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"a: 1\nb: \xe9\n")
    with pytest.raises(SpecError, match=re.escape(f"{path}:2: is not UTF-8 text")):
        load_file(path)


def test_a_file_far_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (3 * 1024 * 1024 + 1))
    with pytest.raises(SpecError, match="is larger than 3145728 bytes"):
        load_file(path)


@pytest.mark.parametrize("text", ["", "\n---\n", "# only a comment\n"])
def test_an_empty_file_is_reported(text: str) -> None:
    assert messages(text) == ["demo.yaml: holds no BucketIngest: it is empty"]


def test_a_file_that_is_not_a_mapping_is_reported() -> None:
    assert messages("- a\n") == ["demo.yaml:1: is not a mapping; allowed: apiVersion, kind, metadata, spec"]


def test_documents_of_other_kinds_are_skipped() -> None:
    assert load_text("kind: Namespace\n---\n" + RIGHT + "---\n").metadata.name == "demo"


def test_two_pipelines_in_a_file_are_reported_with_their_lines() -> None:
    assert messages(RIGHT + "---\n" + RIGHT) == [
        "demo.yaml: holds 2 BucketIngests, in lines 1, 10; allowed: one BucketIngest per file"
    ]


def test_a_file_with_other_kinds_only_is_reported() -> None:
    assert messages("kind: Secret\n---\nfoo: 1\n") == [
        "demo.yaml: holds no BucketIngest, only documents of kind Secret, none"
    ]


def test_dates_and_clock_times_stay_text_as_in_kubernetes() -> None:
    labels = RIGHT.replace("{name: demo}", "{name: demo, labels: {day: 2026-11-21, at: 12:30}}")
    assert load_text(labels).metadata.labels == {"day": "2026-11-21", "at": "12:30"}


def test_aliases_may_be_used_but_not_to_blow_up_a_file() -> None:
    assert load_text(RIGHT.replace("[value]", "[&k value]") + "    orderingField: *k\n").spec.table.ordering_field == (
        "value"
    )
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    assert "more than 100000 values" in messages(bomb)[0]
    assert "50 levels" in messages("a: &a [*a]\n")[0]


def test_fields_of_a_newer_version_are_ignored_where_the_caller_wants_it_at_every_depth() -> None:
    newer = RIGHT.replace("spec:\n", "spec:\n  later: {a: 1}\n") + "    index: {buckets: 4, later: 2}\n"
    found: list[str] = []
    assert load_text(newer, on_unknown=found.extend) == load_text(RIGHT + "    index: {buckets: 4}\n")
    assert sorted(found) == ["spec.later", "spec.table.index.later"]
    assert any("spec.later" in line for line in messages(newer))
    with pytest.raises(SpecError, match="buckets"):
        load_text(newer.replace("buckets: 4", "buckets: 0"), on_unknown=found.extend)


def test_fields_of_a_newer_definition_inside_a_map_are_noted_too() -> None:
    document = {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": "orders"},
        "spec": {
            "source": {
                "kafka": {
                    "bootstrapServers": "kafka:9092",
                    "topics": ["orders"],
                    "optionsFrom": {"kafka.retries": {"secretKeyRef": {"name": "user", "key": "x"}, "newer": 1}},
                }
            },
            "format": {"type": "json", "schema": "id STRING"},
            "table": {"path": "/data/orders", "recordKey": ["id"]},
        },
    }
    found: list[str] = []
    parse_object(document, on_unknown=found.extend)
    assert found == ['spec.source.kafka.optionsFrom["kafka.retries"].newer']
