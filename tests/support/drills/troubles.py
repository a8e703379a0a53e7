"""What really happens to one pipeline, one trouble after the other: how it is seen, and what leads out of it.

Each trouble is caused on a real broker, a real table and a real `bucketingest run`, and then held for some minutes of
the cluster's time (see `support.drills.real`).
"""

from __future__ import annotations

import shutil
from typing import Final

from bucketingest.exit_codes import ExitCode
from bucketingest.storage import open_storage
from devservers.produce import produce
from support.drills.drill import BURNT, TOPIC, Drill, Trouble, says
from support.drills.real import RealPipeline
from support.drills.situation import LATE, YOUNG, alerts
from support.drills.storage_troubles import STORAGE_TROUBLES
from support.tables.other_writers import roll_back_completed
from support.tables.table_runs import TestTable


def _a_poisoned_message(drill: Drill) -> None:
    produce(drill.broker.bootstrap_servers, TOPIC, [(b"1", b"no json")])
    drill.poisoned += 1
    drill.pipeline.until(lambda: drill.pipeline.now.dead_letters == 1)


def _nothing(_: Drill) -> None:
    """The page's way out asks nothing of the pipeline."""


def _another_writer_rolls_back(drill: Drill) -> None:
    table = TestTable()
    table.storage = open_storage(str(drill.table))
    roll_back_completed(table, table.timeline().completed_commits[-1].request_time)
    drill.send(10)
    drill.pipeline.until(lambda: drill.pipeline.now.position_losses == 1)
    drill.rows_are_in()  # else the moment in which the query starts again would last for minutes


def _the_broker_is_killed(drill: Drill) -> None:
    job = drill.pipeline.job
    assert job is not None
    drill.broker.kill()
    drill.pipeline.until(lambda: "waiting for Kafka" in job.process.output)
    now = drill.pipeline.now
    assert (now.phase, now.lag.offsets, now.lag.seconds, now.idle) == ("waiting", None, None, False)


def _the_broker_is_back(drill: Drill) -> None:
    drill.broker.start()
    drill.send(10)
    drill.pipeline.until(lambda: (source := drill.pipeline.now.source) is not None and source.answers)


def _files_are_deleted(drill: Drill) -> None:
    drill.pipeline.kill()
    shutil.rmtree(drill.table.parent / "checkpoint")
    lost = next(path for path in sorted(drill.table.rglob(".*.log.*")) if ".hoodie" not in path.parts)
    drill.kept = (lost, lost.read_bytes())
    lost.unlink()
    drill.pipeline.starts()
    drill.pipeline.until(lambda: (services := drill.pipeline.now.services) is not None and services.damaged_files == 1)


def _the_file_is_restored(drill: Drill) -> None:
    assert drill.kept is not None
    file, content = drill.kept
    file.write_bytes(content)
    (said,) = drill.shell.type("bucketingest inspect /tables/orders")
    assert file.name not in said.output, said
    drill.send(10)


def _the_topic_is_made_again(drill: Drill) -> None:
    drill.broker.delete_topic(TOPIC)
    drill.broker.create_topic(TOPIC, partitions=2)
    drill.send(300)
    assert drill.pipeline.fails().exit_code == ExitCode.SOURCE_CONFLICT


def _a_pipeline_with_a_new_name(drill: Drill) -> None:
    """As the page says: the same table, another name and checkpoint."""
    old = drill.pipeline
    old.end()
    spec = {**old.cluster.spec, "checkpoint": {"path": str(drill.table.parent / "checkpoint2")}}
    folder = old.folder / "second"
    folder.mkdir()
    drill.pipeline = RealPipeline(folder, name="orders2", **spec)
    drill.pipeline.starts()


TROUBLES: Final = (
    Trouble(
        "a message does not decode",
        _a_poisoned_message,
        2,
        alerts("DeadLetters"),
        says(dead_letters={"grep -i rejected": "decode"}, many_dead_letters={"grep -i rejected": "decode"}),
        _nothing,
    ),
    Trouble(
        "another writer rolls a commit back",
        _another_writer_rolls_back,
        2,
        alerts("DeadLetters", "CommitsRolledBack", "CheckpointRebuilt"),
        says(
            commits_rolled_back={
                "starting again": "another writer",
                "bucketingest inspect": "rollback",
            }
        ),
        _nothing,
    ),
    Trouble(
        "the broker is killed",
        _the_broker_is_killed,
        22,
        LATE | YOUNG | alerts("DeadLetters", "CommitsRolledBack", "CheckpointRebuilt", "SourceUnavailable", "NotReady"),
        says(
            source_unavailable={"get bi": "SourceUnavailable", "logs": "Kafka does not answer"},
            commits_late={"get pods": "driver", "logs": "waiting for Kafka"},
            not_ready={'type=="Ready"': "SourceUnavailable"},
        ),
        _the_broker_is_back,
    ),
    Trouble(
        "the driver is killed, and somebody deletes its checkpoint and a data file",
        _files_are_deleted,
        3,
        BURNT | alerts("CheckpointRebuilt", "DamagedFiles", "CommitsRolledBack", "DeadLetters", "SourceUnavailable"),
        says(
            checkpoint_rebuilt={"CheckpointHealthy": "checkpoint", "grep verdict": "rebuilt"},
            damaged_files={"ServicesHealthy": "DataFilesDamaged", "bucketingest inspect": "rows"},
            restart_storm={"status.attempts": "DriverLost"},
        ),
        _the_file_is_restored,
    ),
    Trouble(
        "the topic is deleted, made again, and grows",
        _the_topic_is_made_again,
        7,
        BURNT | alerts("Stalled", "CommitsRolledBack"),
        says(stalled={'type=="Stalled"': "SourceConflict", "describe": "made again"}),
        _a_pipeline_with_a_new_name,
    ),
    *STORAGE_TROUBLES,
)
