"""A bundle contains no secret and no value of an environment variable, and the rest stays readable."""

import json

import yaml

from bucketingest_operator.cli.stripping import strip_file, strip_line, strip_text, stripped

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="pa55word!";'


def test_values_of_environments_are_hidden_and_names_and_origins_stay() -> None:
    origin = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "lake", "key": "token"}}}
    container = {"name": "driver", "env": [{"name": "MASTER", "value": "k8s://odd"}, origin]}
    pod = {"kind": "Pod", "metadata": {"name": "d"}, "spec": {"containers": [container], "initContainers": [container]}}
    for kept in (stripped(pod)["spec"]["containers"], stripped(pod)["spec"]["initContainers"]):
        assert kept[0]["env"] == [{"name": "MASTER", "value": "***"}, origin]
    assert container["env"][0] == {"name": "MASTER", "value": "k8s://odd"}, "what was given is left as it is"


def test_managed_fields_and_the_applied_manifest_are_removed() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "lake"}
    kept = stripped({"kind": "X", "metadata": {"name": "x", "managedFields": [{}], "annotations": annotations}})
    assert kept["metadata"] == {"name": "x", "annotations": {"team": "lake"}}


def test_options_of_a_resource_are_hidden_by_their_names() -> None:
    options = {"kafka.sasl.jaas.config": JAAS, "kafka.ssl.key.password": "x", "kafka.group.id": "loaders"}
    kept = stripped({"metadata": {"name": "x"}, "spec": {"source": {"kafka": {"options": options}}}})
    found = kept["spec"]["source"]["kafka"]["options"]
    assert found == {"kafka.sasl.jaas.config": "***", "kafka.ssl.key.password": "***", "kafka.group.id": "loaders"}


def test_files_of_a_config_map_keep_their_form() -> None:
    template = yaml.safe_dump({"spec": {"containers": [{"name": "e", "env": [{"name": "A", "value": "odd"}]}]}})
    data = {
        "bucketingest.yaml": yaml.safe_dump({"spec": {"options": {"password": "hunter22"}, "n": 4}}),
        "executor.yaml": template,
        "spark-defaults.conf": "spark.hadoop.fs.s3a.secret.key hunter33\nspark.executor.cores 2\n",
        "note.txt": "token=hunter44",
    }
    kept = stripped({"kind": "ConfigMap", "metadata": {"name": "c"}, "data": data, "binaryData": {"x": "aGk="}})
    assert yaml.safe_load(kept["data"]["bucketingest.yaml"]) == {"spec": {"options": {"password": "***"}, "n": 4}}
    assert yaml.safe_load(kept["data"]["executor.yaml"])["spec"]["containers"][0]["env"] == [
        {"name": "A", "value": "***"}
    ]
    assert kept["data"]["spark-defaults.conf"] == "spark.hadoop.fs.s3a.secret.key ***\nspark.executor.cores 2\n"
    assert kept["data"]["note.txt"] == "token=***"
    assert "binaryData" not in kept


def test_invalid_yaml_is_still_searched() -> None:
    assert strip_file("x.yaml", "{password: hunter22") == "{password: ***"


def test_a_line_of_json_stays_json() -> None:
    line = json.dumps({"event": "cannot reach https://me:hunter22@host", "api.key": "hunter33", "rows": 5})
    assert json.loads(strip_line(line)) == {"event": "cannot reach https://***@host", "api.key": "***", "rows": 5}
    assert strip_text(f"{line}\n{{half of a line, password=hunter22\n").count("hunter") == 0


def test_what_is_too_deep_to_be_read_stays_text() -> None:
    assert strip_line('{"a":' + "[" * 5000) == '{"a":' + "[" * 5000
    assert strip_file("spec.yaml", "[" * 5000) == "[" * 5000
