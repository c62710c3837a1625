from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Failure
from lading.core.kubernetes.pod_manifest import pod_name
from lading.core.kubernetes.pod_states import PodPhase, PodState
from lading.dispatch.fleets.kubernetes.pod_table import Patience, PodTable

UUID = "zzzzz-dz642-000000000000001"
PATIENCE = Patience(begin=10.0, lost=20.0)


def state(attempt: str = "a", uid: str = "1", **more: object) -> PodState:
    made = PodState(name=pod_name(UUID, attempt), uid=uid, container=UUID, attempt=attempt)
    return replace(made, **more)  # type: ignore[arg-type]


ended = {"phase": PodPhase.ENDED, "fate": "It ended.", "failure": Failure.NODE}


def table_with(*states: PodState, own: bool = True) -> PodTable:
    table = PodTable(PATIENCE)
    if own:
        table.starting(UUID, "a")
    for one in states:
        table.observe(one, now=0.0)
    return table


def alive(table: PodTable) -> bool:
    return table.processes()[UUID].alive


def test_a_start_is_alive_before_its_pod_is_known() -> None:
    table = table_with()
    assert alive(table)
    assert table.waiting == 1
    assert not table.is_free(UUID)
    table.refused(UUID)
    assert table.is_free(UUID)


def test_an_ended_pod_stays_ended() -> None:
    table = table_with(state(), state(**ended), state(phase=PodPhase.RUNNING))
    process = table.processes()[UUID]
    assert (process.alive, process.fate, process.failure) == (False, "It ended.", Failure.NODE)


def test_a_late_event_of_a_pod_that_was_cleared_away_is_ignored() -> None:
    table = table_with(state(), state(**ended))
    table.drop(UUID)
    table.observe(state(phase=PodPhase.RUNNING), now=0.0)
    table.gone(state(**ended), now=0.0)
    assert table.is_free(UUID)
    over = table.over
    table.forget_over([state()], over)
    assert table.over == over
    table.forget_over([], over)
    assert not table.over


def test_a_pod_of_another_attempt_is_a_stray_and_remains_until_it_is_gone() -> None:
    table = table_with(state(), state("b", "2"))
    assert [one.uid for one in table.strays()] == ["2"]
    assert table.remains(UUID) == [(pod_name(UUID, "a"), "1"), (pod_name(UUID, "b"), "2")]
    table.gone(state("b", "2", **ended), now=0.0)
    assert not table.strays()
    assert alive(table)


def test_a_start_under_way_does_not_take_the_pod_of_an_earlier_attempt_for_its_own() -> None:
    table = table_with(state("b", "2", **ended))
    assert alive(table)
    assert [one.uid for one in table.strays()] == ["2"]


def test_the_first_end_of_a_pod_is_the_one_that_is_told() -> None:
    table = table_with(state(**ended), state(phase=PodPhase.ENDED, fate="Another end."))
    assert table.processes()[UUID].fate == "It ended."


def test_a_second_pod_of_the_same_name_is_a_stray() -> None:
    table = table_with(state(), state(uid="2"))
    assert [one.uid for one in table.strays()] == ["2"]


@given(st.permutations([("a", "1", False, "t1"), ("b", "2", True, "t0"), ("c", "3", False, "t2")]))
def test_of_pods_from_before_the_one_that_has_begun_counts(
    pods: list[tuple[str, str, bool, str]],
) -> None:
    states = [
        state(attempt, uid, started=started, created=created)
        for attempt, uid, started, created in pods
    ]
    table = table_with(*states, own=False)
    known = table.get(UUID)
    assert known is not None
    assert known.attempt == "b"
    assert {one.uid for one in table.strays()} == {"1", "3"}


def test_a_start_of_unknown_outcome_ends_by_two_looks_without_it() -> None:
    table = table_with()
    table.unsure(UUID)
    assert [one.name for one in table.condemned()] == [pod_name(UUID, "a")]
    table.absent(pod_name(UUID, "a"), "")
    assert alive(table)
    table.absent(pod_name(UUID, "a"), "")
    assert not alive(table)
    assert "was not made" in table.processes()[UUID].fate


def test_a_pod_with_a_secret_is_not_condemned_for_an_unknown_outcome() -> None:
    table = table_with(state())
    table.arm(UUID)
    table.unsure(UUID)
    assert not table.condemned()


def test_the_end_of_a_condemned_pod_tells_why() -> None:
    table = table_with(state())
    table.condemn(UUID, "its secret was refused")
    table.gone(state(**ended), now=0.0)
    assert "its secret was refused" in table.processes()[UUID].fate


def test_a_pod_that_no_look_shows_is_gone() -> None:
    table = table_with(state())
    before = table.uids()
    assert table.missing([], before) == [state()]
    assert not table.missing([state()], before)
    assert not table.missing([], ())
    table.absent(pod_name(UUID, "a"), "another")
    assert alive(table)
    table.absent(pod_name(UUID, "a"), "1")
    assert "it is gone" in table.processes()[UUID].fate


def test_a_pod_without_an_image_is_given_up_in_time() -> None:
    table = table_with(state(stuck=True, lacks_image=True))
    assert not table.judge(now=9.0)
    assert not table.condemned()
    table.judge(now=10.0)
    assert table.condemned()
    table.gone(state(**ended), now=11.0)
    assert table.processes()[UUID].failure is Failure.IMAGE


def test_a_pod_that_begins_after_all_is_kept() -> None:
    table = table_with(state(stuck=True))
    table.observe(state(phase=PodPhase.RUNNING), now=9.0)
    table.judge(now=100.0)
    assert not table.condemned()


def test_a_node_is_lost_after_the_grace_and_a_while() -> None:
    table = table_with(state(deleting=True, grace=5.0))
    assert not table.judge(now=24.0)
    assert table.judge(now=25.0)
    one = table.get(UUID)
    assert one is not None
    assert one.is_lost
    assert one.failure is Failure.NODE


events = st.lists(
    st.tuples(
        st.sampled_from(["observe", "gone", "absent", "judge", "unsure", "drop", "arm"]),
        st.sampled_from("ab"),
        st.sampled_from("123"),
        st.sampled_from(list(PodPhase)),
        st.booleans(),
    ),
    max_size=30,
)


@given(events, st.booleans())
def test_whatever_is_seen_no_process_becomes_alive_again(
    seen: list[tuple[str, str, str, PodPhase, bool]], own: bool
) -> None:
    table, has_ended = table_with(own=own), False
    for now, (what, attempt, uid, phase, flag) in enumerate(seen):
        one = state(attempt, uid, phase=phase, fate="x", deleting=flag, stuck=not flag)
        match what:
            case "observe":
                table.observe(one, now=float(now))
            case "gone":
                table.gone(replace(one, phase=PodPhase.ENDED), now=float(now))
            case "absent":
                table.absent(one.name, uid if flag else "")
            case "judge":
                table.judge(now=float(now * 5))
            case "unsure":
                table.unsure(UUID)
            case "arm":
                table.arm(UUID)
            case _ if has_ended:
                table.drop(UUID)
        known = table.processes().get(UUID)
        assert not (has_ended and known is not None and known.alive and what != "drop")
        has_ended = known is not None and not known.alive
        assert known is None or known.alive or known.fate
        assert not {one.uid for one in table.strays()} & table.over
