"""Amounts that earlier containers of a tool needed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lading.core.containers import constraints, recipe
from lading.core.containers.attempts import learned
from lading.core.containers.attempts.learned import Advice, Lesson
from lading.core.containers.constraints import Learning
from lading.core.containers.container import Container
from lading.core.containers.disk_space import DISK_FACTOR
from lading.core.containers.recipe import Recipe
from tests.records import container_uuid, make_container, make_recipe

GIB = 1 << 30
DONE: dict[str, Any] = {"state": "Complete", "exit_code": 0}
OOM: dict[str, Any] = {"state": "Complete", "exit_code": 137, "runtime_status": {"failure": "oom"}}
FULL: dict[str, Any] = {"state": "Cancelled", "runtime_status": {"failure": "disk"}}


def sized(number: int, ram: int, factor: float = 1.0, **changes: Any) -> Container:
    return make_container(
        number,
        runtime_constraints={"ram": ram, "vcpus": 1},
        scheduling_parameters={DISK_FACTOR: factor} if factor > 1 else {},
        **changes,
    )


def test_a_lesson_is_what_succeeded_after_less_had_failed() -> None:
    done, killed = sized(2, 4 * GIB, **DONE), sized(1, 2 * GIB, **OOM)
    assert learned.lesson_of(done, [killed]) == Lesson(4 * GIB, 0.0, container_uuid(2))
    assert learned.lesson_of(done, []) is None
    assert learned.lesson_of(done, [sized(1, 2 * GIB, state="Cancelled")]) is None
    assert learned.lesson_of(sized(2, 2 * GIB, **DONE), [killed]) is None
    assert learned.lesson_of(sized(2, 4 * GIB, **OOM), [killed]) is None
    bigger = sized(3, GIB, 2.0, **DONE)
    assert learned.lesson_of(bigger, [sized(1, GIB, **FULL)]) == Lesson(0, 2.0, container_uuid(3))


def wanted(ram: Any = GIB, **changes: Any) -> Recipe:
    filled = constraints.fill({"ram": ram, "vcpus": 1})
    return make_recipe(runtime_constraints=filled, **changes)


def test_advice_is_what_goes_beyond_the_request() -> None:
    lessons = [Lesson(2 * GIB, 0.0, "a"), Lesson(0, 3.0, "b")]
    found = learned.advise(wanted(), lessons, learning=Learning.APPLY)
    assert found == Advice(2 * GIB, 3.0, GIB, "a", applied=True)
    assert learned.advise(wanted(), lessons, learning=Learning.OFF) is None
    assert learned.advise(wanted(), [], learning=Learning.APPLY) is None
    exact = wanted(match_resources=True)
    assert learned.advise(exact, lessons, learning=Learning.APPLY) is None
    enough = learned.advise(wanted(2 * GIB), lessons[:1], learning=Learning.SUGGEST)
    assert enough is None
    disk_only = learned.advise(wanted(2 * GIB), lessons, learning=Learning.SUGGEST)
    assert disk_only == Advice(0, 3.0, 2 * GIB, "a")


def test_a_range_is_the_bound_of_an_advice() -> None:
    wide = wanted([GIB, 3 * GIB])
    found = learned.advise(wide, [Lesson(8 * GIB)], learning=Learning.APPLY)
    assert found is not None
    assert found.ram == 3 * GIB
    fresh = recipe.new_container(learned.advised(wide, found), uuid="c", now="")
    assert (fresh.runtime_constraints["ram"], fresh.constraint_ranges) == (3 * GIB, {})


def test_only_applied_advice_changes_a_recipe() -> None:
    asked, told = wanted(), Advice(2 * GIB, 3.0, GIB, "a")
    assert learned.advised(asked, None) is asked
    assert learned.advised(asked, told) is asked
    given = learned.advised(asked, Advice(2 * GIB, 3.0, GIB, "a", applied=True))
    assert given.runtime_constraints["ram"] == 2 * GIB
    assert given.scheduling_parameters[DISK_FACTOR] == 3.0
    assert recipe.broad_key(given) == recipe.broad_key(asked)
    more = learned.advised(asked, Advice(2 * GIB, 0.0, GIB, "a", applied=True))
    assert DISK_FACTOR not in more.scheduling_parameters


def test_an_advice_in_words() -> None:
    told = Advice(2 * GIB, 3.0, GIB, "a")
    assert told.sentence == (
        "a, which ran the same program with inputs of this size or less, ended well only with "
        "2.0 GiB of ram and 3 times the usual disk space; ask for that much"
    )
    applied = Advice(0, 3.0, GIB, "a", applied=True)
    assert applied.sentence.endswith("only with 3 times the usual disk space; it gets that")
    assert applied.shown()["asked_ram"] == GIB


@given(
    st.lists(st.builds(Lesson, st.integers(0, 1 << 40), st.floats(0, 64)), max_size=4),
    st.integers(1, 1 << 40),
)
def test_advice_never_asks_for_less(lessons: list[Lesson], ram: int) -> None:
    asked = structs.replace(_ASKED, runtime_constraints={"ram": ram, "vcpus": 1})
    found = learned.advise(asked, lessons, learning=Learning.APPLY)
    got = learned.advised(asked, found)
    assert int(got.runtime_constraints["ram"]) >= ram  # type: ignore[arg-type]
    if found is not None:
        assert found.ram > ram or found.disk_factor > 1
        assert found.ram in {0, *(one.ram for one in lessons)}


_ASKED = wanted()
