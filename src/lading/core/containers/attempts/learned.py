"""Amounts that earlier containers of a tool needed, for later ones (`Containers.LearnResources`).

- The needs of a tool of one user (`core.scheduling.expected_times.Tool`) say nothing to others.
- A lesson is an amount that a container had when it succeeded after an attempt with less had
  failed for lack of it. It holds for inputs of its size, and for larger ones.

Source: docs/spec/containers, section Learned amounts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import structs

from lading.core.containers import constraint_ranges, constraints
from lading.core.containers.attempts.retry import failure_class
from lading.core.containers.container import Container, has_succeeded
from lading.core.containers.disk_space import DISK_FACTOR, disk_factor
from lading.core.containers.recipe import Recipe, enlarged
from lading.core.errors import Failure
from lading.core.resources import format_bytes
from lading.core.values import JsonObject


@dataclass(frozen=True, slots=True)
class Lesson:
    """Amounts that a tool needed: bytes of ram, times the usual disk space; 0: not known. The
    container `container_uuid` had them.
    """

    ram: int = 0
    disk_factor: float = 0.0
    container_uuid: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """Amounts in which a lesson goes beyond a recipe; 0: it does not. `asked`: bytes of ram that
    the recipe has; `applied`: its container gets the amounts.
    """

    ram: int
    disk_factor: float
    asked: int
    container_uuid: str
    applied: bool = False

    @property
    def sentence(self) -> str:
        """Sentence about the learned needs and their use."""
        needed = " and ".join(
            need
            for need in (
                f"{format_bytes(self.ram)} of ram" if self.ram else "",
                f"{self.disk_factor:g} times the usual disk space" if self.disk_factor else "",
            )
            if need
        )
        done = "it gets that" if self.applied else "ask for that much"
        return (
            f"{self.container_uuid}, which ran the same program with inputs of this size or less, "
            f"ended well only with {needed}; {done}"
        )

    def shown(self) -> JsonObject:
        """Plain JSON of the advice."""
        return {
            "ram": self.ram,
            "disk_factor": self.disk_factor,
            "asked_ram": self.asked,
            "container_uuid": self.container_uuid,
            "applied": self.applied,
            "sentence": self.sentence,
        }


def lesson_of(ended: Container, earlier: Iterable[Container]) -> Lesson | None:
    """The lesson of a container that succeeded, after the earlier attempts of its request; None
    when it teaches nothing.
    """
    if not has_succeeded(ended):
        return None
    failed = list(earlier)
    had = constraint_ranges.range_span(ended.runtime_constraints.get("ram"))[0]
    killed = [
        constraint_ranges.range_span(attempt.runtime_constraints.get("ram"))[0]
        for attempt in failed
        if failure_class(attempt) is Failure.OOM
    ]
    factor = disk_factor(ended.scheduling_parameters)
    full = [
        disk_factor(attempt.scheduling_parameters)
        for attempt in failed
        if failure_class(attempt) is Failure.DISK
    ]
    ram = had if killed and max(killed) < had else 0
    disk = factor if full and max(full) < factor else 0.0
    return Lesson(ram, disk, ended.uuid) if ram or disk else None


def advise(
    made_of: Recipe, lessons: Iterable[Lesson], *, learning: constraints.Learning
) -> Advice | None:
    """The advice of lessons about the tool of a new container; None when it asks for enough, or
    wants exactly the amounts that it asks for.
    """
    learned = list(lessons)
    if made_of.match_resources or not learned or learning is constraints.Learning.OFF:
        return None
    low, high = constraint_ranges.range_span(
        made_of.limits.get("ram", made_of.runtime_constraints.get("ram"))
    )
    most = max(learned, key=lambda lesson: (lesson.ram, lesson.disk_factor))
    # A range is the bound.
    ram = min(most.ram, high) if low < high else most.ram
    disk = max(lesson.disk_factor for lesson in learned)
    if ram <= low and disk <= 1:
        return None
    return Advice(
        ram if ram > low else 0,
        disk if disk > 1 else 0.0,
        low,
        most.container_uuid,
        applied=learning is constraints.Learning.APPLY,
    )


def advised(made_of: Recipe, advice: Advice | None) -> Recipe:
    """The recipe with the amounts of an advice that is applied."""
    if advice is None or not advice.applied:
        return made_of
    made_of = enlarged(made_of, advice.ram)
    if not advice.disk_factor:
        return made_of
    scheduling = {**made_of.scheduling_parameters, DISK_FACTOR: advice.disk_factor}
    return structs.replace(made_of, scheduling_parameters=scheduling)
