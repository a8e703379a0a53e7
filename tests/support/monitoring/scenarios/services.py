"""Table services: compactions that are late or hang, steps that fail."""

from __future__ import annotations

from support.monitoring.scenarios.scenario import Scenario, of


def _ages(oldest: str, pending: str = "0x400", limit: str = "3600x400") -> dict[str, str]:
    """Seconds: age of the oldest log file, age of the pending compaction, `services.compaction.logAge`."""
    return {
        of("bucketingest_oldest_log_seconds", pod="d"): oldest,
        of("bucketingest_compaction_seconds", pod="d"): pending,
        of("bucketingest_log_age_limit_seconds", pod="d"): limit,
    }


def _failures(counts: str, pod: str = "d") -> dict[str, str]:
    return {of("bucketingest_service_failures_total", pod=pod): counts}


def _counted(minutes: tuple[int, ...], until: int) -> str:
    """A counter, minute by minute, that counts up at each of these minutes."""
    return " ".join(str(sum(at <= now for at in minutes)) for now in range(until))


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "BucketIngestCompactionLate",
        "no compaction for more than two hours, then one",
        _ages("0+60x130 60x50"),
        fires_at=("106m", "130m"),
        silent_at=("60m", "92m", "104m", "132m"),
        step="1m",
    ),
    Scenario(
        "BucketIngestCompactionLate",
        "the new job continues a compaction that hangs: it has not looked for log files yet",
        _ages("0x200", pending="0+60x200"),
        fires_at=("110m", "190m"),
        silent_at=("60m", "100m"),
        step="1m",
    ),
    Scenario(
        "BucketIngestCompactionLate",
        "a compaction takes a quarter of an hour: log files are at most 80 minutes old",
        _ages(" ".join(["900+60x65"] * 4), pending=" ".join(["0x45 0+60x19"] * 4)),
        silent_at=("30m", "70m", "130m", "250m"),
        step="1m",
    ),
    Scenario(
        "BucketIngestCompactionLate",
        "logAge is a minute: the time between two looks at the table is not late",
        _ages(" ".join(["100+30x8"] * 20), limit="60x400"),
        silent_at=("20m", "60m"),
    ),
    Scenario(
        "BucketIngestCompactionLate",
        "the same, and nothing is compacted",
        _ages("0+30x200", limit="60x400"),
        fires_at=("26m", "60m"),
        silent_at=("9m", "24m"),
    ),
    Scenario(
        "BucketIngestCompactionLate",
        "another resource's generous limit does not count",
        {
            **_ages("8000x100"),
            'bucketingest_log_age_limit_seconds{namespace="shop", name="slow"}': "86400x100",
        },
        fires_at=("20m",),
    ),
    Scenario(
        "BucketIngestBaseFilesLate",
        "five minutes are promised: compactions keep it, then none ends, then one does",
        {
            **_ages(" ".join(["0+30x9"] * 4) + " 0+30x40 0x60"),
            of("bucketingest_read_optimized_limit_seconds", pod="d"): "300x200",
        },
        fires_at=("32m", "38m"),
        silent_at=("10m", "28m", "42m"),
    ),
    Scenario(
        "BucketIngestBaseFilesLate",
        "nothing is promised",
        _ages("3000x100"),
        silent_at=("30m",),
    ),
    Scenario(
        "BucketIngestCompactionLate",
        "the job does not compact the table",
        {of("bucketingest_oldest_log_seconds", pod="d"): "90000x100"},
        silent_at=("30m",),
    ),
    Scenario(
        "BucketIngestPinned",
        "a dead instant of another writer keeps the archive from going on; cleans go on; a person rolls it back",
        {
            of("bucketingest_clean_pinned_seconds", pod="d"): "0x500",
            of("bucketingest_archive_pinned_seconds", pod="d"): "0x10 60+60x400 0x90",
        },
        fires_at=("390m", "410m"),
        silent_at=("300m", "370m", "420m"),
        step="1m",
    ),
    Scenario(
        "BucketIngestPinned",
        "each clean waits for a slow query for five hours",
        {of("bucketingest_clean_pinned_seconds", pod="d"): " ".join(["0+60x300"] * 4)},
        silent_at=("290m", "700m", "1100m"),
        step="1m",
    ),
    Scenario(
        "BucketIngestDamagedFiles",
        "a user deletes a data file, and restores it",
        {of("bucketingest_damaged_files", pod="d"): "0x10 1x40 0x20"},
        fires_at=("12m", "45m"),
        silent_at=("9m", "55m"),
        step="1m",
    ),
    Scenario(
        "BucketIngestServiceFailures",
        "storage refuses: the pauses get longer, up to half an hour; then a person repairs it",
        _failures(_counted((1, 3, 7, 15, 31, 61, 91, 121), until=400)),
        fires_at=("35m", "60m", "120m"),
        silent_at=("20m", "170m", "390m"),
        step="1m",
    ),
    Scenario(
        "BucketIngestServiceFailures",
        "a table that only Hudi can compact is looked at each half hour",
        _failures(_counted(tuple(range(1, 400, 30)), until=400)),
        fires_at=("160m", "390m"),
        silent_at=("60m", "90m"),
        step="1m",
    ),
    Scenario(
        "BucketIngestServiceFailures",
        "each new driver fails again",
        {
            **_failures(_counted((2, 4, 8), until=30) + " _x100", pod="one"),
            **_failures("_x30 " + _counted((2, 4, 8), until=100), pod="two"),
        },
        fires_at=("40m", "60m"),
        silent_at=("15m",),
        step="1m",
    ),
    Scenario(
        "BucketIngestServiceFailures",
        "an outage of ten minutes",
        _failures(_counted((20, 22, 26), until=300)),
        silent_at=("25m", "60m", "200m"),
        step="1m",
    ),
)
