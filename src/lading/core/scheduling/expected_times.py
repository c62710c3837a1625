"""Expected times from experience: how long a tool runs, when a queue is worked off, and how right
such expectations were.

- A tool is a program, an image and the size of the inputs, each for one user.
- The program is the name of the command's file. Of a shell or an interpreter the first argument
  that is no option belongs to it: the script.
- The size of inputs is counted in powers of two of the bytes of all mounted collections.
- The run time of a tool is the median of its latest successful runs, with the quartiles as spread.
- A queue is worked off in its order by as many places as there are containers running: each takes
  the place that becomes free first. `top` and `why` both use this (`work_off`).
- The error of an expectation is the difference between the expected and the real wait, as a part of
  the larger one. It is told as the value that four in five of the latest errors do not exceed.

Times are seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import inf
from typing import Final

from msgspec import structs

from lading.core.containers.attempts.spot import RUN_TIME, about
from lading.core.containers.container import Container
from lading.core.containers.recipe import Recipe
from lading.core.scheduling.planning import TrackedContainer
from lading.core.values import JsonObject

MOST_ERRORS: Final = 100
"""Latest starts whose errors count."""
_FEWEST_ERRORS: Final = 10
# Seconds: waits shorter than this are right whatever was expected within it.
_SHORT: Final = 5.0
# Programs that run another program, which their first argument names.
_INTERPRETERS: Final = frozenset(
    {"sh", "bash", "dash", "ash", "ksh", "zsh", "env", "python", "python3", "perl", "ruby", "node",
     "Rscript", "java", "time", "nice"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tool:
    """A program in an image, run for one user, with inputs of 2**`size_class` bytes at most."""

    user_uuid: str
    program: str
    image: str
    size_class: int


@dataclass(frozen=True, slots=True)
class RunTime:
    """Seconds that runs of a tool took: the median, the quartiles, and how many runs there are."""

    median: float
    low: float
    high: float
    runs: int

    def shown(self) -> JsonObject:
        """Plain JSON of the run time."""
        return {"median": self.median, "low": self.low, "high": self.high, "runs": self.runs}


@dataclass(frozen=True, slots=True)
class WorkOff:
    """Seconds until the next container of a queue can start, and until all have ended."""

    start: float
    end: float


def tool_of(of: Container | Recipe, input_bytes: int) -> Tool:
    """The tool of a container or recipe; `input_bytes` are those of its mounted collections."""
    return Tool(
        of.runtime_user_uuid or "",
        program_key(of.command),
        of.container_image,
        max(0, input_bytes).bit_length(),
    )


def program_key(command: Sequence[str]) -> str:
    """The name under which the run times of the program of a command are kept."""
    return hashlib.sha256(program(command).encode("utf-8", "surrogatepass")).hexdigest()


def program(command: Sequence[str]) -> str:
    """The program of a command, with the script of an interpreter; "" without a command."""
    if not command:
        return ""
    name = command[0].rpartition("/")[2]
    if name not in _INTERPRETERS:
        return name
    script = next((argument for argument in command[1:] if not argument.startswith("-")), "")
    return f"{name} {script}"


def run_time(seconds: Sequence[float]) -> RunTime | None:
    """The run time of a tool, by its runs; None without any."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    low, middle, high = (_quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    return RunTime(middle, low, high, len(ordered))


def with_run_time(made_of: Recipe, seconds: Sequence[float]) -> Recipe:
    """The recipe of a new container with the run time of its tool, by the runs of that; unchanged
    without any. Its place depends on that, and whether it may pass another one.
    """
    known = run_time(seconds)
    if known is None:
        return made_of
    scheduling = {**made_of.scheduling_parameters, RUN_TIME: max(1, round(known.median))}
    return structs.replace(made_of, scheduling_parameters=scheduling)


def usual_seconds(every: Iterable[float]) -> float | None:
    """The median of times; None without any."""
    ordered = sorted(every)
    return _quantile(ordered, 0.5) if ordered else None


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which a part of the others is, between two of them by proportion."""
    at = share * (len(ordered) - 1)
    below, above = ordered[int(at)], ordered[min(int(at) + 1, len(ordered) - 1)]
    return below + (above - below) * (at - int(at))


def expected_end(container: TrackedContainer, *, began: float, now: float) -> float:
    """When a container that began at a time is expected to end; infinity: not known."""
    if began == -inf:
        return inf
    run_times = [seconds for seconds in (container.run_time, container.max_run_time) if seconds]
    return now + rest_of(min(run_times), now - began) if run_times else inf


def rest_of(expected: float, elapsed: float) -> float:
    """Seconds that a run still takes. One that takes longer than expected is expected to take half
    of its delay more.
    """
    return expected - elapsed if elapsed < expected else (elapsed - expected) / 2


def work_off(rests: Sequence[float], work: Iterable[float]) -> WorkOff | None:
    """When a queue is worked off: `rests` of the containers that run, and the run times of those
    that wait, in their order. None where nothing runs: nothing says how fast it will be.
    """
    if not rests:
        return None
    places = list(rests)
    heapify(places)
    end = max(places)
    for seconds in work:
        ended = places[0] + seconds
        heapreplace(places, ended)
        end = max(end, ended)
    return WorkOff(places[0], end)


def error_of(expected: float, waited: float) -> float:
    """The error of an expected wait, from 0 (right) to 1."""
    larger = max(expected, waited)
    return 0.0 if larger <= _SHORT else abs(expected - waited) / larger


def usual_error(errors: Sequence[float]) -> float | None:
    """The error that four in five expectations do not exceed; None as long as there are few."""
    if len(errors) < _FEWEST_ERRORS:
        return None
    latest = sorted(errors[-MOST_ERRORS:])
    return latest[(4 * len(latest) + 4) // 5 - 1]


def start_sentence(seconds: float, error: float | None) -> str:
    """Sentence about the expected start of a container."""
    how = "" if error is None else f" (usually right within {max(1, round(100 * error))} %)"
    return f"It is expected to start in {about(seconds)}{how}."


def end_sentence(seconds: float, usual: RunTime) -> str:
    """Sentence about the expected end of a container."""
    runs = "1 run" if usual.runs == 1 else f"{usual.runs} runs"
    spread = f"{about(usual.low)} to {about(usual.high).removeprefix('about ')}"
    # A spread that is smaller than the words can tell says nothing.
    is_even = about(usual.low) == about(usual.median) == about(usual.high)
    took = about(usual.median) if is_even else f"{about(usual.median)} ({spread})"
    return f"It is expected to end in {about(seconds)}: {runs} of its program took {took}."
