"""`lading.run`: all that a part of a program submits is one run.

    with lading.run("cohort-7", params={"k": 25}):
        site.run(["align", "/in/reads.fq"], inputs={"/in/reads.fq": "reads.fq"})

A program that is run again makes the next attempt. Without the block, the variable LADING_RUN names
the run of a program.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from lading.client.api import ApiClient, Record
from lading.client.run_records import reading, submitting
from lading.core.drawing.step_names import step_name
from lading.core.errors import LadingError
from lading.core.ids import Infix, is_uuid
from lading.core.runs import attempts
from lading.core.runs.states import RunOutcome

_Value = TypeVar("_Value")
_ACTIVE: Final[list[RunBlock]] = []
"""The runs of the open blocks of this process, the innermost last; threads share them."""
_LOCK: Final = threading.Lock()
_OF_PROGRAM: Final[dict[tuple[str, int | None], RunBlock]] = {}
"""The runs that the variable names."""


class SubmittingSite(Protocol):
    """The part of a `client.site.Site` that runs use."""

    api: ApiClient

    def call(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        """Run a coroutine in the loop of the site, and wait for its result."""


class RunBlock:
    """A run to which all requests belong that the program submits within the block.

    `params` are shown to whoever may read the run; `project` is the uuid of its owner. Use it as a
    context; the run is begun with its first request.
    """

    def __init__(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        project: str | None = None,
        session: str | None = None,
        source: Mapping[str, Any] | None = None,
    ) -> None:
        self.name, self._number = submitting.named_run(name)
        self._params, self._project = dict(params or {}), project
        self._session = session or uuid.uuid4().hex
        self._source = source
        self._begun: dict[int, tuple[SubmittingSite, Record]] = {}
        self._beginning = threading.Lock()

    @property
    def uuid(self) -> str | None:
        """The uuid of the run; None before its first request."""
        return next((str(begun["uuid"]) for _, begun in self._begun.values()), None)

    @property
    def attempt(self) -> int | None:
        """The number of the attempt; None before its first request."""
        return next((int(begun["attempt"]) for _, begun in self._begun.values()), None)

    def __enter__(self) -> Self:
        with _LOCK:
            _ACTIVE.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _LOCK:
            _ACTIVE.remove(self)
        if kind is not None:
            outcome = RunOutcome.CANCELLED if kind is KeyboardInterrupt else RunOutcome.FAILED
            self.end(outcome, note=f"{kind.__name__}: {error}" if str(error) else kind.__name__)

    def end(self, outcome: RunOutcome, *, note: str = "") -> None:
        """Report how the program ended. A run without that has ended when its steps have."""
        for site, begun in self._begun.values():
            # The fault of the program itself is what its user has to see.
            with suppress(LadingError):
                site.call(
                    reading.end(
                        site.api,
                        str(begun["uuid"]),
                        attempt=int(begun["attempt"]),
                        outcome=str(outcome),
                        note=note,
                    )
                )

    def begin(self, site: SubmittingSite) -> Record:
        """The attempt, which is begun if need be: `uuid` and `attempt`. Raises the errors of the
        API.
        """
        with self._beginning:
            known = self._begun.get(id(site))
            if known is None:
                known = (site, site.call(self._begin(site.api)))
                self._begun[id(site)] = known
        return known[1]

    async def _begin(self, api: ApiClient) -> Record:
        if is_uuid(self.name, Infix.GROUP) and self._number:
            return {"uuid": self.name, "attempt": self._number}
        source = submitting.this_source() if self._source is None else dict(self._source)
        return await reading.begin(
            api,
            self.name,
            project=self._project,
            attempt=self._number,
            session=self._session,
            params=self._params,
            source=source,
        )


def run(name: str, params: Mapping[str, Any] | None = None, **options: Any) -> RunBlock:
    """A block of a program whose requests are steps of the run NAME; `options` as of `RunBlock`."""
    return RunBlock(name, params, **options)


def membership(site: SubmittingSite, body: Record, *, program: str, step: str | None) -> Record:
    """The attributes of a request as a step of the run that is open, or that LADING_RUN names; {}
    without a run. Raises the errors of the API.
    """
    block = active_run()
    if block is None:
        return {}
    begun = block.begin(site)
    name = step or step_name(str(body.get("name") or program))
    marks = {attempts.ATTEMPT: int(begun["attempt"]), attempts.STEP: name}
    return {
        "owner_uuid": begun["uuid"],
        "properties": {**(body.get("properties") or {}), **marks},
        "output_name": body.get("output_name") or body.get("name") or name,
    }


def active_run() -> RunBlock | None:
    """The innermost open block, else that of LADING_RUN; None without."""
    with _LOCK:
        if _ACTIVE:
            return _ACTIVE[-1]
    named = submitting.run_of(os.environ)
    if named is None:
        return None
    with _LOCK:
        return _OF_PROGRAM.setdefault(named, _named_by_variable(*named))


def _named_by_variable(name: str, number: int | None) -> RunBlock:
    return RunBlock(f"{name}#{number}" if number else name, session=submitting.this_session())
