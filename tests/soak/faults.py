"""Carries faults out, and waits after each until the pipeline has committed again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from bucketingest.exit_codes import ExitCode
from soak.damage import Checkpoints
from soak.fault_plan import Fault, Kind
from soak.hudi import HudiNeighbour
from soak.job.attempt import Attempt
from soak.job.pipeline import Pipeline
from soak.job.processes import Process, Role
from soak.judge.figures import Recovery
from soak.waiting import SoakFailed, reached, until

MOMENT_SECONDS_MAX = 4.0
SERVICES_SECONDS_MAX = 30.0
"""After its start the job looks at the table; then a process beside it compacts."""
STARTUP_SECONDS = 12.0
"""About how long an attempt takes to its first commit; a kill during a start comes within it."""
ENDS_WITHIN_SECONDS = 90.0


@dataclass(slots=True)
class FaultCarrier:
    """Does one fault after the other to the pipeline."""

    pipeline: Pipeline
    hudi: HudiNeighbour
    checkpoints: Checkpoints
    say: Callable[[str], None]
    kills: int = 0
    """SIGKILLs that hit something."""

    def carry_out(self, fault: Fault) -> Recovery | None:
        """Do it; returns how long the pipeline took to commit again, if the driver had to be started again."""
        self._await_moment(fault)
        match fault.kind:
            case Kind.JVM:
                return self._driver(fault, Role.JVM)
            case Kind.PYTHON:
                return self._driver(fault, Role.DRIVER)
            case Kind.WORKERS:
                self._inside(fault, Role.WORKER, every=fault.every)
            case Kind.EXECUTOR:
                self._inside(fault, Role.EXECUTOR, every=False)
            case Kind.SERVICES:
                self._services(fault)
            case Kind.LATE:
                self._late_workers(fault)
            case Kind.HUDI_BESIDE:
                self._hudi_beside(fault)
            case Kind.ZOMBIE:
                return self._zombie(fault)
            case Kind.TERMINATE:
                return self._terminate(fault)
            case Kind.POD | Kind.RECOVERY | Kind.CHECKPOINT | Kind.HUDI_BETWEEN:
                return self._pod(fault)
        return None

    def _await_moment(self, fault: Fault) -> None:
        watch = self.pipeline.watch
        before = watch.completed_files()
        reached(lambda: watch.reached(fault.moment, before), within=MOMENT_SECONDS_MAX, poll=0.01)
        time.sleep(fault.jitter)  # which moment it is, not a wait for anything

    def _kill(self, attempt: Attempt, processes: list[Process]) -> None:
        self.kills += attempt.signal(processes, signal.SIGKILL)

    def _driver(self, fault: Fault, role: Role) -> Recovery:
        attempt = self.pipeline.current
        killed = time.time()
        self._kill(attempt, attempt.processes(role))
        attempt.wait_until_gone(str(fault))
        self.pipeline.note_end(attempt, expected=True)
        return self._restart(fault, killed)

    def _pod(self, fault: Fault) -> Recovery:
        attempt = self.pipeline.current
        killed = time.time()
        self.kills += len(attempt.processes())
        attempt.kill_all()
        if fault.kind is Kind.RECOVERY:
            self._kill_starting(self.pipeline.start(), fault)
        elif fault.kind is Kind.CHECKPOINT:
            hit = self.checkpoints.damage(fault.damage)
            self.say(f"  checkpoint: {fault.damage.value}, {hit} hit")
        else:
            self.checkpoints.keep_copy()  # it is old when a later fault puts it back
        if fault.kind is Kind.HUDI_BETWEEN:
            self.hudi.upsert(fault.service)
            killed = time.time()
        return self._restart(fault, killed)

    def _kill_starting(self, attempt: Attempt, fault: Fault) -> None:
        """Kill an attempt at some moment of its start, its recovery included."""
        age = fault.fraction * STARTUP_SECONDS
        reached(lambda: attempt.age >= age or not attempt.running, within=STARTUP_SECONDS)
        self.kills += len(attempt.processes())
        attempt.kill_all()

    def _restart(self, fault: Fault, killed: float) -> Recovery:
        attempt = self.pipeline.start()
        committed = self.pipeline.wait_for_commit(time.time(), str(fault))
        return Recovery.of(fault, killed, attempt, committed)

    def _inside(self, fault: Fault, role: Role, *, every: bool) -> None:
        attempt = self.pipeline.current
        found = attempt.processes(role)
        if not every and found:
            found = [found[int(fault.fraction * len(found))]]
        killed = time.time()
        self._kill(attempt, found)
        self.pipeline.wait_for_commit(killed, str(fault), may_end=True)

    def _services(self, fault: Fault) -> None:
        """The moment is one in the life of what compacts, which is there only at times."""
        attempt = self.pipeline.current
        reached(lambda: bool(attempt.processes(Role.SERVICES)), within=SERVICES_SECONDS_MAX, poll=0.05)
        time.sleep(fault.jitter)  # which moment it is, not a wait for anything
        killed = time.time()
        self._kill(attempt, attempt.processes(Role.SERVICES))
        self.pipeline.wait_for_commit(killed, str(fault))

    def _late_workers(self, fault: Fault) -> None:
        """Python workers stand still, their executor dies, others do their tasks; then they go on where they were.

        (Twins by speculation would do as well, but Spark starts none on the host of the first.)
        """
        attempt = self.pipeline.current
        executors = attempt.processes(Role.EXECUTOR)
        if not executors:
            raise SoakFailed(f"there is no executor; {attempt.tail()}")
        victim = executors[int(fault.fraction * len(executors))]
        still = _descendants(victim, attempt.processes())
        workers = [process for process in still if process.parent != victim.pid]  # but not the daemon that forks them
        attempt.signal(still, signal.SIGSTOP)
        killed = time.time()
        self._kill(attempt, [victim])
        try:
            self.pipeline.wait_for_commit(killed, f"{fault}: they stand still", may_end=True)
            attempt.signal(workers, signal.SIGCONT)
            self.pipeline.wait_for_commit(time.time(), f"{fault}: they go on", may_end=True)
        finally:
            self._kill(attempt, still)

    def _zombie(self, fault: Fault) -> Recovery:
        zombie = self.pipeline.current
        roles = () if fault.every else (Role.DRIVER, Role.JVM)
        still = zombie.processes(*roles)
        stopped = time.time()
        zombie.signal(still, signal.SIGSTOP)
        recovery = self._restart(fault, stopped)
        zombie.signal(still, signal.SIGCONT)
        resumed = time.time()
        until(lambda: not zombie.running, f"the zombie ends; {zombie.tail()}", within=ENDS_WITHIN_SECONDS)
        if zombie.code == ExitCode.OK:
            raise SoakFailed(f"a driver that was taken over from ended as if all were well; {zombie.tail()}")
        zombie.wait_until_gone(str(fault))
        self.pipeline.note_end(zombie, expected=zombie.code == ExitCode.FENCED_OUT)
        self.pipeline.wait_for_commit(resumed, f"{fault}: it went on")
        return recovery

    def _terminate(self, fault: Fault) -> Recovery:
        attempt = self.pipeline.current
        asked = time.time()
        attempt.signal(attempt.processes(Role.DRIVER), signal.SIGTERM)
        attempt.wait_until_gone(str(fault))
        if attempt.code != ExitCode.OK:
            raise SoakFailed(f"SIGTERM ended it with {attempt.code}; {attempt.tail()}")
        return self._restart(fault, asked)

    def _hudi_beside(self, fault: Fault) -> None:
        started = time.time()
        self.hudi.upsert(fault.service)
        self.pipeline.wait_for_commit(max(started, time.time()), str(fault), may_end=True)


def _descendants(root: Process, all_: list[Process]) -> list[Process]:
    found = [root]
    for process in found:
        found += [child for child in all_ if child.parent == process.pid]
    return found[1:]
