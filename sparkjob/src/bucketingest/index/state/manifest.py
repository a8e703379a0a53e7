"""What the state is at one moment: its runs, its partitions, and up to which completion time it knows the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from bucketingest.index.errors import StateDamaged
from bucketingest.index.state.coverage import CoveredSlice, PartitionState


@dataclass(frozen=True, slots=True)
class Manifest:
    """Immutable. A partition that it does not have is not loaded."""

    runs: tuple[str, ...] = ()
    """Digests, newest first."""
    partitions: Mapping[str, PartitionState] = field(default_factory=dict)
    """By partition path."""
    view: str = ""
    """The newest completion time that is folded in."""
    next_generation: int = 0
    """Above every generation that a run may have."""

    @property
    def generations(self) -> dict[str, int]:
        """Partition path to its current generation."""
        return {path: each.generation for path, each in self.partitions.items()}

    def without(self, partition_path: str) -> Manifest:
        """The partition is forgotten; its entries vanish with the next merge of their runs."""
        rest = {path: each for path, each in self.partitions.items() if path != partition_path}
        return replace(self, partitions=rest)

    def with_partition(self, partition_path: str, state: PartitionState) -> Manifest:
        """The partition is as `state` says. One that is loaded again takes `next_generation`."""
        return replace(
            self,
            partitions={**self.partitions, partition_path: state},
            next_generation=max(self.next_generation, state.generation + 1),
        )

    def as_json(self) -> dict[str, Any]:
        """For `of_json`."""
        return {
            "runs": list(self.runs),
            "view": self.view,
            "nextGeneration": self.next_generation,
            "partitions": {
                path: {
                    "generation": each.generation,
                    "covered": {
                        file_id: [known.base_instant, known.logs, known.log_names, *filter(None, [known.pending])]
                        for file_id, known in each.covered.items()
                    },
                }
                for path, each in self.partitions.items()
            },
        }

    @classmethod
    def of_json(cls, content: Any, *, source: str) -> Self:
        """Raises StateDamaged, with the source, if the content is no manifest's."""
        try:
            partitions = {
                path: PartitionState(
                    each["generation"], {file_id: CoveredSlice(*known) for file_id, known in each["covered"].items()}
                )
                for path, each in content["partitions"].items()
            }
            return cls(tuple(content["runs"]), partitions, content["view"], content["nextGeneration"])
        except (KeyError, TypeError, AttributeError) as error:
            raise StateDamaged(f"{source}: it is not a manifest: {error!r}") from error
