"""The faults of a soak follow from its seed alone."""

from soak.fault_plan import Kind, Service, plan


def test_a_seed_repeats_its_faults() -> None:
    assert plan(7, 50) == plan(7, 50)
    assert plan(7, 50) != plan(8, 50)


def test_a_shorter_run_does_the_same_at_first() -> None:
    assert plan(7, 50)[:20] == plan(7, 20)


def test_twenty_faults_have_every_kind_that_is_no_write_of_hudi_and_one_that_is() -> None:
    for seed in range(30):
        kinds = {fault.kind for fault in plan(seed, 20)}
        hudi = {Kind.HUDI_BESIDE, Kind.HUDI_BETWEEN}
        assert kinds >= set(Kind) - hudi
        assert kinds & hudi


def test_kinds_can_be_chosen() -> None:
    assert {fault.kind for fault in plan(7, 20, [Kind.ZOMBIE, Kind.POD])} == {Kind.ZOMBIE, Kind.POD}


def test_hudi_comes_with_every_service_sooner_or_later() -> None:
    faults = [fault for seed in range(10) for fault in plan(seed, 20, [Kind.HUDI_BESIDE, Kind.HUDI_BETWEEN])]
    assert {fault.service for fault in faults} == set(Service)


def test_what_hudi_does_besides_is_said_of_its_visits_alone() -> None:
    for fault in plan(7, 60):
        visit = fault.kind in {Kind.HUDI_BESIDE, Kind.HUDI_BETWEEN}
        assert (f", {fault.service.value})" in str(fault)) == visit
