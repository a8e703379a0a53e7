from __future__ import annotations

from bench.profile import without_commands

GRAPH = (
    '<text id="title" x="50" y="24.00">/home/me/.venv/bin/py-spy record --output /home/me/flame.svg</text>'
    "<title>process 7:&quot;/home/me/python -m bench.sides.ours /tmp/ours.json&quot; (9 samples, 100%)</title>"
    "<title>process 8:&quot;/usr/bin/java SparkSubmit --conf daemon=x.worker_daemon&quot; (9 samples, 100%)</title>"
    "<title>process 9:&quot;/home/me/python -m x.worker_daemon&quot; (9 samples, 100%)</title>"
    '<text y="80.00">process 9:&quot;/home/me/pyth..</text><title>pack (shuffle.py:80) (5 samples, 50%)</title>'
)


def test_a_flame_graph_tells_functions_and_nothing_of_the_machine() -> None:
    assert without_commands(GRAPH) == (
        '<text id="title" x="50" y="24.00">bucketingest\'s Python workers</text>'
        "<title>driver 7 (9 samples, 100%)</title>"
        "<title>JVM 8 (9 samples, 100%)</title>"
        "<title>Python worker 9 (9 samples, 100%)</title>"
        '<text y="80.00">process 9</text><title>pack (shuffle.py:80) (5 samples, 50%)</title>'
    )
