"""The comparison of a mirror with the database that it mirrors, which the operator has made in a window."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.runtime import MaintenanceWindow
from bucketingest.spec.fields.source import OptionFrom
from bucketingest.spec.scalars import ALLOWED_KEY, Column, duration_text


class Audit(SpecModel):
    """A Job of the operator that runs `bucketingest audit` each time that the window opens."""

    against: str = Field(
        description="The database: postgres://USER@HOST:PORT/DATABASE, with parameters of libpq such as "
        "?sslmode=verify-full. Never a password.",
        pattern=r"^postgres(ql)?://([^:/?#@\s]+@)?[^@\s]+$",
        max_length=1024,
        json_schema_extra={ALLOWED_KEY: "postgres://USER@HOST/DATABASE, without a password"},
    )
    password_from: OptionFrom | None = Field(
        default=None, description="Where the password is; only the Job reads it. Absent: the server wants none."
    )
    window: MaintenanceWindow = Field(
        description="When it may begin. There is one result in each window; what ends without one is tried again, four "
        "times in all. It is ended when it has run for the duration."
    )
    table: str | None = Field(
        default=None,
        description="The database's table as SCHEMA.TABLE; as the topic's name ends when absent.",
        pattern=r"^[^.\s]+\.[^.\s]+$",
        max_length=256,
        json_schema_extra={ALLOWED_KEY: "SCHEMA.TABLE"},
    )
    columns: tuple[Column, ...] = Field(
        default=(), description="Columns to compare beside the key; all that both have when empty.", max_length=256
    )
    pause: Annotated[timedelta, duration_text("0s", "10m")] = Field(
        default=timedelta(), description="Time between two statements, which spares the database; 0s to 10m."
    )
    statement_timeout: Annotated[timedelta, duration_text("1s", "24h")] = Field(
        default=timedelta(minutes=1), description="Longest time of a statement; 1s to 24h."
    )
    settle: Annotated[timedelta, duration_text("1m", "24h")] = Field(
        default=timedelta(minutes=2),
        description="How long a change may take from the database into the table; 1m to 24h. Only what differs for "
        "longer is reported, and only if no input waited for longer meanwhile.",
    )
