"""The size of the Spark application that runs a pipeline."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.scalars import BytesText, CoresText, OptionValue, SmallText, Whole


class Driver(SpecModel):
    """The driver pod."""

    cores: Annotated[int, CoresText("100m", "256")] = Field(
        default=1000, description='CPU of the driver in cores, such as "1" or "500m".'
    )
    memory: Annotated[int, BytesText("512Mi", "4Ti")] = Field(
        default=2 * 1024**3, description="Memory of the driver's JVM heap in bytes, such as 2Gi."
    )


class Executor(SpecModel):
    """The executor pods."""

    instances: Whole = Field(default=2, description="Number of executors.", ge=1, le=10_000)
    cores: Annotated[int, CoresText("1", "256")] = Field(
        default=2000, description='CPU of one executor in cores; whole cores are task slots, such as "2".'
    )
    memory: Annotated[int, BytesText("512Mi", "4Ti")] = Field(
        default=4 * 1024**3, description="Memory of one executor's JVM heap in bytes, such as 4Gi."
    )


class Spark(SpecModel):
    """The Spark application. On one machine it only sizes the local session."""

    image: SmallText | None = Field(
        default=None, description="Container image of the job; the operator's own setting when absent."
    )
    driver: Driver = Field(default=Driver(), description="Size of the driver.")
    executor: Executor = Field(default=Executor(), description="Number and size of the executors.")
    conf: dict[str, OptionValue] = Field(
        default={},
        description="Further spark.* settings. Those that other fields set are refused.",
        max_length=256,
    )
