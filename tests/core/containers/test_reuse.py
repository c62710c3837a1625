"""Which container can answer a request, and why not the others."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lading.core.containers import reuse, reuse_explanation
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.recipe import Recipe
from lading.core.containers.reuse import Candidate, Choice, New, Reuse
from lading.core.errors import Invalid
from tests.records import POLICY, container_uuid, make_container, make_recipe

RECIPE = make_recipe()
SPOT = {"max_run_time": 0, "partitions": [], "preemptible": True, "supervisor": False}


def done(number: int, finished_at: str = "1", **changes: Any) -> Candidate:
    made = make_container(
        number, **{"state": "Complete", "exit_code": 0, "finished_at": finished_at, **changes}
    )
    return Candidate(made, log_present=True, output_present=True)


def live(number: int, **changes: Any) -> Candidate:
    return Candidate(make_container(number, **changes))


def choose(*candidates: Candidate, **options: Any) -> Choice:
    return reuse.choose(RECIPE, candidates, policy=POLICY, **options)


BY_PREFERENCE = [
    done(1, finished_at="1"),
    done(2, finished_at="2"),
    live(3, state="Running", started_at="1"),
    live(4, state="Running", started_at="1", progress=0.9),
    live(5, state="Running", started_at="1", progress=0.5),
    live(6, state="Running", started_at="2", progress=0.5),
    live(7, state="Locked", priority=1),
    live(8, state="Queued", priority=2**60 + 1),
    live(9, state="Queued", priority=2**60, created_at="1"),
    live(10, state="Queued", priority=2**60, created_at="2"),
    live(11, state="Queued", priority=0),
]


@pytest.mark.parametrize(("better", "worse"), list(itertools.combinations(BY_PREFERENCE, 2)))
def test_the_order_of_preference(better: Candidate, worse: Candidate) -> None:
    for pair in ((better, worse), (worse, better)):
        choice = choose(*pair)
        assert isinstance(choice, Reuse)
        assert choice.container is better.container
        assert all(verdict.usable for verdict in choice.verdicts)


UNUSABLE = [
    (live(1, state="Cancelled"), "it was cancelled and has no result"),
    (done(1, exit_code=3), "it ended with exit code 3"),
    (Candidate(done(1).container, output_present=True), "its log was deleted"),
    (Candidate(done(1).container, log_present=True), "its output was deleted"),
    (
        live(1, state="Running", runtime_status={"error": "bad disk"}),
        "it is running but reports an error",
    ),
    (live(1, state="Running", priority=0), "it is running but is being cancelled (priority 0)"),
    (live(1, scheduling_parameters=SPOT), "it waits for a preemptible instance"),
    (
        done(1, runtime_constraints={**RECIPE.runtime_constraints, "keep_cache_ram": 5}),
        "it has another keep_cache_ram",
    ),
]


@pytest.mark.parametrize(("candidate", "reason"), UNUSABLE)
def test_containers_that_cannot_be_used_say_why(candidate: Candidate, reason: str) -> None:
    choice = choose(candidate)
    assert isinstance(choice, New)
    assert not choice.verdicts[0].usable
    assert reason in choice.verdicts[0].reason
    assert (
        choice.reason == "the same was asked for before, but none of those containers can be used"
    )


def test_a_withdrawn_result_is_not_used() -> None:
    choice = choose(done(1, withdrawn_at="2", withdrawn_reason="bad lot"))
    assert isinstance(choice, New)
    assert choice.verdicts[0].reason == "its result was withdrawn"


def test_only_reproduced_results_are_used_if_the_request_asks_for_it() -> None:
    def run(number: int, output: str) -> Candidate:
        return done(number, str(number), broad_key="k", output=output)

    once = choose(run(1, "a"), only_reproduced=True)
    assert "was not run again" in once.verdicts[0].reason
    twice = choose(run(1, "a"), run(2, "a"), only_reproduced=True)
    assert isinstance(twice, Reuse)
    assert twice.container.uuid == container_uuid(1)
    thrice = choose(run(1, "a"), run(2, "a"), run(3, "b"), only_reproduced=True)
    assert isinstance(thrice, New)
    assert thrice.verdicts[0].reason == "it was reproduced 1 of 2 times"
    joined = choose(live(4, state="Running", broad_key="k"), only_reproduced=True)
    assert isinstance(joined, New)
    bad = choose(done(1, exit_code=3), only_reproduced=True)
    assert bad.verdicts[0].reason == "it ended with exit code 3"


STRICT = structs.replace(RECIPE, strict_output=True)
_LEFT_OUT = "the request has strict_output"
_FAILS = "it fails if an entry of its output cannot be saved"


@pytest.mark.parametrize(
    ("recipe", "candidate", "fault"),
    [
        (RECIPE, done(1, runtime_status={"omitted": 3}), ""),
        (RECIPE, done(1, strict_output=True), ""),
        (RECIPE, live(1, state="Running"), ""),
        (RECIPE, live(1, state="Running", strict_output=True), _FAILS),
        (RECIPE, live(1, strict_output=True), _FAILS),
        (STRICT, done(1), ""),
        (STRICT, done(1, runtime_status={"omitted": 3}), "its output lacks 3 entries"),
        (STRICT, done(1, runtime_status={"omitted": 1}), "its output lacks an entry"),
        (STRICT, done(1, runtime_status={"warning": "output: 1,234 entries not saved"}), "1,234"),
        (STRICT, live(1, state="Running"), _LEFT_OUT),
        (STRICT, live(1, state="Running", strict_output=True), ""),
        (STRICT, live(1, strict_output=True), ""),
        (STRICT, done(1, exit_code=3, runtime_status={"omitted": 3}), "exit code 3"),
    ],
)
def test_a_request_with_strict_output_uses_whole_outputs(
    recipe: Recipe, candidate: Candidate, fault: str
) -> None:
    choice = reuse.choose(recipe, [candidate], policy=POLICY)
    assert isinstance(choice, New if fault else Reuse)
    assert fault in choice.verdicts[0].reason


OTHER = "zzzzz-tpzed-bbbbbbbbbbbbbbb"


def test_a_container_that_cannot_be_read_is_used_but_not_described() -> None:
    theirs = replace(done(1, runtime_user_uuid=OTHER), shown=False)
    choice = choose(theirs, replace(done(2, "2", runtime_user_uuid=OTHER), shown=False))
    assert isinstance(choice, Reuse)
    assert (choice.container, choice.shown) == (theirs.container, False)
    # The container that was chosen is named: the request has it then.
    assert [one.container_uuid for one in choice.verdicts] == [container_uuid(1)]
    assert reuse_explanation.explain(choice, container_uuid=None)["candidates"] == []


def test_a_container_that_cannot_be_read_nor_used_counts_for_nothing() -> None:
    gone = replace(done(1, runtime_user_uuid=OTHER), shown=False, log_present=False)
    unreadable = replace(done(2, runtime_user_uuid=OTHER), shown=False, inputs_readable=False)
    assert choose(gone, unreadable) == New("the same was never asked for before", ())
    mine = done(3, broad_key="k", output="a")
    repeat = replace(
        done(4, runtime_user_uuid=OTHER, broad_key="k", output="a"),
        shown=False,
        output_present=False,
    )
    choice = choose(mine, repeat, only_reproduced=True)
    assert "was not run again" in choice.verdicts[0].reason


def test_a_result_that_the_user_has_withdrawn_for_their_own_requests_is_not_used() -> None:
    own = replace(done(1, broad_key="k", output="a"), withdrawn_for_user=True)
    choice = choose(own)
    assert isinstance(choice, New)
    assert "has withdrawn its result for their own requests" in choice.verdicts[0].reason
    # Nor is it evidence for another one.
    choice = choose(own, done(2, "2", broad_key="k", output="a"), only_reproduced=True)
    assert "was not run again" in choice.verdicts[1].reason
    with pytest.raises(Invalid, match="for their own requests"):
        reuse.check_rights(RECIPE, own, is_admin=False)


def test_what_others_still_have_is_not_told() -> None:
    gone = replace(done(1, runtime_user_uuid=OTHER), log_present=False)
    assert choose(gone).verdicts[0].reason == (
        "its log was deleted or cannot be read by the user of this request"
    )
    assert choose(gone, is_admin=True).verdicts[0].reason == "its log was deleted"


def test_the_rights_are_checked_for_a_container_chosen_by_hand() -> None:
    def check(candidate: Candidate, *, is_admin: bool = False) -> None:
        reuse.check_rights(RECIPE, candidate, is_admin=is_admin)

    theirs = done(1, runtime_user_uuid=OTHER)
    check(theirs)
    check(live(1, runtime_user_uuid=OTHER))
    gone = replace(theirs, output_present=False)
    check(gone, is_admin=True)
    check(replace(done(1), output_present=False))
    with pytest.raises(Invalid, match="its log or its output cannot be read"):
        check(gone)
    with pytest.raises(Invalid, match="it has inputs that the user of this request cannot read"):
        check(replace(theirs, inputs_readable=False))


def test_the_words_of_a_record_are_added_for_its_readers() -> None:
    withdrawn = make_container(
        1, state="Complete", withdrawn_at="2", withdrawn_reason="bad lot", exit_code=0
    )
    running = make_container(2, state="Running", runtime_status={"error": "bad disk"})
    silent = make_container(3, state="Complete", withdrawn_at="2", exit_code=0)
    cancelled = make_container(4, state="Cancelled")
    several = [Candidate(one) for one in (withdrawn, running, silent, cancelled)]
    said: Any = reuse_explanation.explain(choose(*several), container_uuid=None)["candidates"]
    readable = {one.container.uuid: one.container for one in several}
    shown: Any = reuse_explanation.shown_candidates(said, readable)
    assert [one["reason"] for one in shown] == [
        "its result was withdrawn: bad lot",
        "it is running but reports an error: bad disk",
        "its result was withdrawn",
        "it was cancelled and has no result",
    ]
    assert reuse_explanation.shown_candidates(said, {}) == []


def test_nobody_waits_for_himself() -> None:
    choice = choose(live(1, state="Running"), waiting=[container_uuid(1)])
    assert choice.verdicts[0].reason == "it waits for the result of this request itself"


def test_a_preemptible_request_may_join_anything() -> None:
    ours = make_recipe(scheduling_parameters=SPOT)
    assert isinstance(
        reuse.choose(ours, [live(1, scheduling_parameters=SPOT)], policy=Policy()), Reuse
    )
    assert isinstance(reuse.choose(ours, [live(1)], policy=Policy()), Reuse)


def test_reasons_for_a_new_container() -> None:
    assert choose() == New("the same was never asked for before", ())
    refused = choose(done(1), use_existing=False)
    assert refused == New("the request asks for a new container (use_existing is false)", ())


def test_a_live_mount_is_never_answered_by_an_earlier_result() -> None:
    mounts: Any = {**RECIPE.mounts, "/work": {"kind": "live", "root": "/work"}}
    choice = reuse.choose(make_recipe(mounts=mounts), [done(1)], policy=POLICY)
    reason = "its mount /work is live: what it reads there may have changed"
    assert choice == New(reason, ())


def test_a_container_from_a_row_can_be_used() -> None:
    stored = Container.from_record(done(1).container.to_record())
    assert isinstance(choose(Candidate(stored, log_present=True, output_present=True)), Reuse)


CANDIDATES = st.lists(
    st.builds(
        lambda changes, log, output, filtered: (changes, log, output, filtered),
        st.fixed_dictionaries(
            {
                "state": st.sampled_from(list(ContainerState)),
                "priority": st.integers(0, 2),
                "exit_code": st.sampled_from([None, 0, 1]),
                "progress": st.sampled_from([None, 0.0, 0.5]),
                "finished_at": st.sampled_from([None, "1", "2"]),
                "started_at": st.sampled_from([None, "1", "2"]),
                "created_at": st.sampled_from(["1", "2"]),
                "runtime_status": st.sampled_from([{}, {"error": "x"}, {"warning": "x"}]),
                "scheduling_parameters": st.sampled_from([SPOT, {**SPOT, "preemptible": False}]),
            }
        ),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    max_size=6,
)


@given(CANDIDATES, st.sets(st.integers(1, 6)), st.booleans(), st.randoms(use_true_random=False))
def test_nothing_unfit_is_ever_chosen(
    rows: list[tuple[dict[str, Any], bool, bool, bool]], waits: set[int], spot: bool, random: Random
) -> None:
    """Whatever there is: what is chosen has a result or may get one, and the order in which it was
    found is nothing.
    """
    ours = make_recipe(scheduling_parameters=SPOT) if spot else RECIPE
    known = [
        Candidate(make_container(number, **changes), log, output, filtered)
        for number, (changes, log, output, filtered) in enumerate(rows, 1)
    ]
    waiting = {container_uuid(number) for number in waits}
    choice = reuse.choose(ours, known, policy=Policy(preemptible=True), waiting=waiting)
    assert [one.container_uuid for one in choice.verdicts] == [one.container.uuid for one in known]
    usable = {one.container_uuid for one in choice.verdicts if one.usable}
    assert all(one.reason for one in choice.verdicts)
    shuffled = random.sample(known, len(known))
    again = reuse.choose(ours, shuffled, policy=Policy(preemptible=True), waiting=waiting)
    if isinstance(choice, New):
        assert not usable
        assert isinstance(again, New)
        return
    assert isinstance(again, Reuse)
    assert again.container == choice.container
    candidate = next(one for one in known if one.container is choice.container)
    assert choice.container.uuid in usable - waiting
    assert not candidate.filtered
    assert _is_fit(candidate, spot=spot)
    ranks = [ORDER.index(one.container.state) for one in known if one.container.uuid in usable]
    assert ORDER.index(choice.container.state) == min(ranks)


ORDER = (
    ContainerState.COMPLETE,
    ContainerState.RUNNING,
    ContainerState.LOCKED,
    ContainerState.QUEUED,
)


def _is_fit(candidate: Candidate, *, spot: bool) -> bool:
    """The rule of docs/spec/containers, section Reuse, written down once more."""
    made = candidate.container
    match made.state:
        case ContainerState.COMPLETE:
            return made.exit_code == 0 and candidate.log_present and candidate.output_present
        case ContainerState.RUNNING:
            return made.priority > 0 and "error" not in made.runtime_status
        case ContainerState.LOCKED | ContainerState.QUEUED:
            return spot or made.scheduling_parameters["preemptible"] is not True
        case ContainerState.CANCELLED:
            return False


def test_what_somebody_was_inside_is_used_only_if_configured() -> None:
    for candidate in (
        done(1, interactive_session_started=True),
        live(2, state="Running", interactive_session_started=True),
    ):
        choice = choose(candidate)
        assert isinstance(choice, New)
        assert "inside with a shell" in choice.verdicts[0].reason
        allowed = reuse.choose(
            RECIPE, [candidate], policy=structs.replace(POLICY, reuse_after_shell=True)
        )
        assert isinstance(allowed, Reuse)
