"""One resource: the rows of its board about the table, its services and its index."""

from __future__ import annotations

from typing import Final

from monitoring.model import Panel, Query, Row
from monitoring.panel_parts import WHO, of

SERVICES: Final = Row(
    "Table services",
    (
        Panel(
            "Log files not compacted",
            "Log files that no compaction has merged. A snapshot query opens those of its partitions.",
            (Query(of("bucketingest_log_files"), "log files"),),
        ),
        Panel(
            "Bytes not compacted",
            "Bytes of these log files.",
            (Query(of("bucketingest_log_bytes"), "bytes"),),
            unit="bytes",
        ),
        Panel(
            "Oldest log file",
            "Its age: a read-optimized query is so far behind. Its limit, if the job compacts the table.",
            (
                Query(of("bucketingest_oldest_log_seconds"), "age"),
                Query(of("bucketingest_log_age_limit_seconds"), "services.compaction.logAge"),
                Query(of("bucketingest_read_optimized_limit_seconds"), "slo.readOptimizedFreshness"),
            ),
            unit="s",
        ),
        Panel(
            "Compactions per hour",
            "Compactions that were completed, and steps that failed; each is tried again.",
            (
                Query(f"sum(increase(bucketingest_compactions_total{{{WHO}}}[1h]))", "compactions"),
                Query(f"sum(increase(bucketingest_service_failures_total{{{WHO}}}[1h]))", "failed steps"),
            ),
        ),
        Panel(
            "Pending compaction",
            "Time since this job first worked on it; 0 without one.",
            (Query(of("bucketingest_compaction_seconds"), "age"),),
            unit="s",
        ),
        Panel(
            "Clean and archive held",
            "For how long something has kept them from going on; 0 if nothing does. Long: see the condition.",
            (
                Query(of("bucketingest_clean_pinned_seconds"), "clean"),
                Query(of("bucketingest_archive_pinned_seconds"), "archive"),
            ),
            unit="s",
        ),
    ),
)

INDEX: Final = Row(
    "Index with a state",
    (
        Panel(
            "State",
            "Entries of the state, and file groups whose keys it has. A table with buckets has none.",
            (
                Query(of("bucketingest_state_keys"), "keys"),
                Query(of("bucketingest_state_file_groups"), "file groups"),
            ),
        ),
        Panel(
            "Size of the state",
            "What each executor maps into memory.",
            (Query(of("bucketingest_state_bytes"), "bytes"),),
            unit="bytes",
        ),
        Panel(
            "Known keys",
            "Share of rows whose key had a file group.",
            (
                Query(
                    f"1 - sum(rate(bucketingest_inserts_total{{{WHO}}}[5m]))"
                    f" / (sum(rate(bucketingest_rows_total{{{WHO}}}[5m])) > 0)",
                    "known",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            "Keys loaded",
            "Read from the table's files per second: at a start, and after other writers, compactions and restores.",
            (Query(f"sum(rate(bucketingest_state_loaded_keys_total{{{WHO}}}[5m]))", "keys/s"),),
        ),
        Panel(
            "Small file groups, partitions not loaded",
            "Small file groups that table services may merge, 0 before they have looked; partitions whose keys are "
            "loaded when a row of them comes.",
            (
                Query(f"{of('bucketingest_small_groups')} or vector(0)", "small file groups"),
                Query(of("bucketingest_state_unloaded_partitions"), "partitions not loaded"),
            ),
        ),
    ),
)

_ONE: Final = f'{WHO}, topic=~"$topic"'

TABLES: Final = Row(
    "Many tables",
    (
        Panel(
            "Tables",
            "Of a resource with many: all, those that an error keeps from being written, those that are late.",
            (
                Query(of("bucketingest_tables"), "all"),
                Query(of("bucketingest_tables_parked"), "parked"),
                Query(of("bucketingest_tables_late"), "late"),
                Query(of("bucketingest_tables_gone"), "topic gone"),
            ),
        ),
        Panel(
            "Lag by table",
            "For how long input has waited; a parked table has none.",
            (Query(f"max by (topic) (bucketingest_table_lag_seconds{{{_ONE}}})", "{{topic}}"),),
            unit="s",
        ),
        Panel(
            "Parked",
            "1 while an error keeps a table from being written.",
            (Query(f"max by (topic) (bucketingest_table_parked{{{_ONE}}})", "{{topic}}"),),
        ),
        Panel(
            "Rows by table",
            "Rows received per second.",
            (Query(f"sum by (topic) (rate(bucketingest_table_rows_total{{{_ONE}}}[$__rate_interval]))", "{{topic}}"),),
            unit="rps",
            stacked=True,
        ),
        Panel(
            "Commits by table",
            "Per minute.",
            (
                Query(
                    f"sum by (topic) (rate(bucketingest_table_commits_total{{{_ONE}}}[$__rate_interval])) * 60",
                    "{{topic}}",
                ),
            ),
            stacked=True,
        ),
    ),
)
