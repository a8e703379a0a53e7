"""The operator's answer to each way in which a driver can end."""

from __future__ import annotations

import pytest

from bucketingest.exit_codes import ENDINGS, ExitCode, Remedy
from bucketingest_operator.decide.failures import TREATMENTS, Answer, Diagnosis, Failure, diagnose, failure_of
from bucketingest_operator.observation import PodReason, PodState
from support.operator.observations import driver, termination


@pytest.mark.parametrize("code", [code for code in ExitCode if code is not ExitCode.OK])
def test_an_end_that_needs_a_person_stalls_and_every_other_restarts(code: ExitCode) -> None:
    found = diagnose(driver(state=PodState.FAILED, exit_code=code, report=termination(code)))
    assert found is not None
    # The demo's code never comes from a driver, and credentials are often renewed by others.
    person = ENDINGS[code].remedy is Remedy.PERSON and code not in {ExitCode.WRONG_RESULT, ExitCode.ACCESS_DENIED}
    assert (found.treatment.answer is Answer.STALL) == person


def test_every_failure_has_a_treatment() -> None:
    assert set(TREATMENTS) == set(Failure)


def test_a_job_that_took_all_input_has_not_failed() -> None:
    said = termination(0, error_class="Completed")
    assert diagnose(driver(state=PodState.SUCCEEDED, exit_code=0, report=said)) is None


def test_a_job_that_was_stopped_from_outside_is_restarted_at_once() -> None:
    said = termination(0, error_class="Stopped")
    found = diagnose(driver(state=PodState.SUCCEEDED, exit_code=0, report=said))
    assert found is not None
    assert found.failure is Failure.STOPPED
    assert found.treatment.answer is Answer.AT_ONCE


def test_an_exit_without_a_message_is_not_taken_for_completion() -> None:
    found = diagnose(driver(state=PodState.SUCCEEDED, exit_code=0))
    assert found is not None
    assert found.failure is Failure.STOPPED


def test_memory_is_known_from_kubernetes_when_the_job_could_not_say_it() -> None:
    found = diagnose(driver(state=PodState.FAILED, exit_code=137, reason=PodReason.OOM_KILLED))
    assert found is not None
    assert found.failure is Failure.OUT_OF_MEMORY


def test_a_killed_driver_without_a_reason_is_lost() -> None:
    for message in ("", "The driver was killed (SIGKILL)."):
        found = diagnose(driver(state=PodState.FAILED, exit_code=137, message=message))
        assert found == Diagnosis(Failure.DRIVER_LOST, "The driver was killed (SIGKILL).")


def test_an_end_without_a_message_has_its_exit_code() -> None:
    found = diagnose(driver(state=PodState.FAILED, exit_code=77))
    assert found is not None
    assert found.message == "The driver exited without a termination message (exit code 77)."


def test_what_the_job_said_and_the_advice_are_two_sentences() -> None:
    for said in ("/tables/orders: no space", "/tables/orders: no space."):
        found = diagnose(driver(state=PodState.FAILED, exit_code=6, report=termination(6, said)))
        assert found is not None
        assert found.message == "/tables/orders: no space. Storage does not answer, or has no room."


def test_a_pod_that_is_gone_is_lost() -> None:
    found = diagnose(None)
    assert found is not None
    assert found.failure is Failure.DRIVER_LOST


def test_a_stale_checkpoint_is_distinguished_from_other_ends_of_the_query() -> None:
    said = termination(21, "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")
    found = diagnose(driver(state=PodState.FAILED, exit_code=9, report=said))
    assert found is not None
    assert found.failure is Failure.CHECKPOINT_LOST
    assert "Concurrent update" in found.message


def test_a_code_of_a_newer_job_is_unknown_and_restarts() -> None:
    found = diagnose(driver(state=PodState.FAILED, exit_code=77, report=termination(77)))
    assert found is not None
    assert found.treatment.answer is Answer.BACKOFF


def test_outcomes_name_failures_and_planned_ends_do_not() -> None:
    assert failure_of("Stuck") is Failure.STUCK
    assert failure_of("SpecChanged") is None
    assert failure_of(None) is None
