"""The size of the Spark application that runs a pipeline."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.scalars import OptionValue, SmallText, Whole, bytes_text, cores_text


class Driver(SpecModel):
    """The driver pod."""

    cores: Annotated[int, cores_text("100m", "256")] = Field(
        default=1000, description='CPU of the driver in cores, such as "1" or "500m".'
    )
    memory: Annotated[int, bytes_text("512Mi", "4Ti")] = Field(
        default=2 * 1024**3, description="Memory of the driver's JVM heap in bytes, such as 2Gi."
    )
    memory_overhead: Annotated[int, bytes_text("384Mi", "4Ti")] | None = Field(
        default=None,
        description=(
            "Memory of the driver's pod beside the heap, in bytes: for the JVM, Python, table services and, without "
            "executors, the tasks. Absent: enough for table services that merge files of any size."
        ),
    )


class Executor(SpecModel):
    """The executor pods."""

    instances: Whole = Field(
        default=2,
        description=(
            "Number of executors. 0: the driver does their work in its own pod, with a task slot for each whole core, "
            "and has no right to create pods; for small pipelines."
        ),
        ge=0,
        le=10_000,
    )
    max_instances: Whole | None = Field(
        default=None,
        description=(
            "At most so many executors: without a restart the job asks for more than `instances` while input from "
            "Kafka waits, and gives them back when fewer do its work. Absent: always `instances`."
        ),
        ge=1,
        le=10_000,
    )
    cores: Annotated[int, cores_text("1", "256")] = Field(
        default=2000, description='CPU of one executor in cores; whole cores are task slots, such as "2".'
    )
    memory: Annotated[int, bytes_text("512Mi", "4Ti")] = Field(
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

    @property
    def is_driver_only(self) -> bool:
        """Whether the driver does the work of executors, too."""
        return self.executor.instances == 0

    @property
    def executors_most(self) -> int:
        """The most executors that there may be."""
        return self.executor.max_instances or self.executor.instances

    @property
    def slots(self) -> int:
        """Tasks that run at the same time in one executor, or in the driver if there is none."""
        cores = self.driver.cores if self.is_driver_only else self.executor.cores
        return max(1, cores // 1000)
