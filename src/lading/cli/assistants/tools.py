"""The tools of an assistant: it reads requests, runs, reasons, logs and small files. Where the user
allows it, it submits a request again.

Each answer is JSON of bounded size. Texts that programs in containers have written stand under
`untrusted`. All calls are made with the token of the user, which no answer has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import quote

from lading.cli.assistants.bounds import encoded, shortened, untrusted
from lading.cli.references import find_request
from lading.cli.running import selection
from lading.cli.running.request_details import failure_document
from lading.cli.running.selection import RequestSelection
from lading.cli.runs import showing
from lading.cli.session import CliSession
from lading.client import explanations
from lading.client.api import Record
from lading.client.outcomes import RequestOutcome
from lading.client.provenance.failures import find_failure
from lading.client.remote_files.tree import RemoteFiles
from lading.client.request_states import repeated, shown_command, shown_state
from lading.client.run_records.reading import list_runs
from lading.core.errors import Invalid, NotFound
from lading.core.ids import is_pdh
from lading.core.log_tail import last_texts
from lading.core.runs.step_groups import group_steps

MOST_ROWS: Final = 50
MOST_LINES: Final = 100
MOST_READ: Final = 16 << 10
"""Bytes of a file in one answer."""
_TAIL: Final = 64 << 10
"""Bytes at the end of a log that are read."""
_CACHE: Final = 64 << 20
"""Bytes of blocks in memory: one block at least."""
_DETAILS: Final = ("command", "created_at")
_FAILURES: Final = 5
"""Failures of a run with their last lines."""
Status = Literal["", "waiting", "running", "done", "failed", "cancelled"]


class AssistantTools:
    """The calls of one session."""

    def __init__(self, session: CliSession) -> None:
        self._session = session
        self._files = RemoteFiles(session.api, session.blocks, cache=_CACHE)

    async def list_requests(self, status: Status = "", name: str = "", limit: int = 20) -> str:
        """List container requests, the newest first, at most 50. `status` and `name`, a pattern as
        `sort.*`, select some.
        """
        criteria = RequestSelection(names=(name,) if name else (), state=status or None)
        found_requests = await selection.find(
            self._session, criteria, _DETAILS, most=_between(limit, MOST_ROWS)
        )
        rows = [_row(outcome) for outcome in found_requests.requests]
        return encoded({"requests": rows, "total": found_requests.total})

    async def list_runs(self, name: str = "", limit: int = 20) -> str:
        """List runs of pipelines, the one begun last first, at most 50. `name`: a part of their
        names.
        """
        runs = await list_runs(self._session.api, limit=_between(limit, MOST_ROWS), name=name)
        fields = ("uuid", "name", "state", "counts", "began_at", "ended_at", "note", "attempt")
        rows = [{field: run.get(field) for field in fields} for run in runs]
        return encoded({"runs": shortened(rows, longest=100)})

    async def show_request(self, request: str) -> str:
        """Show a request and its container: command, image, inputs, resources, state. `request`: a
        uuid, a name, or `last`.
        """
        record = await find_request(self._session, request)
        container = await self._container(record)
        state = shown_state(RequestOutcome(record, container))
        shown = shortened(container)
        if container is not None:
            # Programs write it: errors, warnings, and what they are doing.
            shown["runtime_status"] = untrusted(shown.get("runtime_status"))
        return encoded({"state": state, "request": shortened(record), "container": shown})

    async def show_run(self, run: str) -> str:
        """Show a run of a pipeline: its state, its steps, and its first failures with their last
        lines. `run`: a name, a uuid, or `last`; `NAME#N` is an earlier attempt.
        """
        picture = await showing.look(self._session, run, failures=_FAILURES, lines=10)
        steps = [
            {"name": group.name, "state": group.state, "counts": group.counts.shown()}
            for group in group_steps(picture.steps)
        ]
        failures = showing.document(picture)["failures"][:_FAILURES]
        return encoded(
            {
                "run": shortened(picture.run, longest=200),
                "steps": shortened(steps, longest=100),
                "failures": untrusted(shortened(failures)),
            }
        )

    async def why(self, request: str) -> str:
        """Explain a request: why it failed, with its last lines or the step that it failed for; why
        it waits; why an earlier result was or was not used. `request`: a uuid, a name, or `last`.
        """
        record = await find_request(self._session, request)
        answer: Mapping[str, Any] = await self._session.api.action(
            "container_requests", record["uuid"], "why", method="GET"
        )
        failure = await find_failure(
            self._session.api, RequestOutcome(record, answer["container"]), most=MOST_LINES // 4
        )
        reasons = [
            {name: shortened(reason)} for name, reason in explanations.why_fields(answer) if reason
        ]
        rows = explanations.difference_rows(answer["decision"] or {})
        return encoded(
            {
                "reasons": reasons[:MOST_ROWS],
                "differences": shortened([list(row) for row in rows], longest=200),
                "failure": untrusted(shortened(failure_document(failure))),
            }
        )

    async def read_log(
        self,
        request: str,
        stream: Literal["stderr", "stdout", "crunch-run"] = "stderr",
        lines: int = 50,
    ) -> str:
        """Read the last lines of a log of a request, at most 100; `crunch-run` is that of the
        system. `request`: a uuid, a name, or `last`.
        """
        record = await find_request(self._session, request)
        container = record["container_uuid"]
        if not container:
            raise NotFound(f"{record['uuid']}: has no container yet, so no log; see the tool why")
        path = f"container_requests/{record['uuid']}/log/{container}/{quote(stream)}.txt"
        try:
            response = await self._session.api.raw(
                "GET", f"/arvados/v1/{path}", headers={"Range": f"bytes=-{_TAIL}"}
            )
            data = response.body[-_TAIL:]
        except NotFound:
            data = b""
        texts = last_texts(data, is_cut=len(data) == _TAIL, most=_between(lines, MOST_LINES))
        return encoded({"request": record["uuid"], "stream": stream, "lines": untrusted(texts)})

    async def list_files(self, address: str = "", limit: int = 50) -> str:
        """List the projects, collections and files at an address, at most 50: `PROJECT/COLLECTION`,
        the uuid of a collection, or of a request for its output. Without one: the home.
        """
        entries = await self._files.entries(address)
        rows = [
            {"path": entry.path, "kind": entry.kind, "size": entry.size}
            for entry in entries[: _between(limit, MOST_ROWS)]
        ]
        return encoded({"total": len(entries), "entries": untrusted(shortened(rows))})

    async def read_file(self, address: str, start: int = 0, length: int = 4096) -> str:
        """Read a part of a file, at most 16384 bytes from the offset `start` on, as UTF-8 text."""
        size = (await self._files.entry(address)).size
        first = _between(start, size, least=0)
        data = await self._files.read(address, first, first + _between(length, MOST_READ))
        text = data.decode(errors="replace")
        return encoded({"size": size, "start": first, "content": untrusted(text)})

    async def submit_again(
        self, request: str, name: str = "", inputs: dict[str, str] | None = None
    ) -> str:
        """Submit a request that was submitted before once more, with the same command and image. An
        equal one that has succeeded is not run again. `inputs`: other contents, a portable data
        hash or the uuid of a collection by the path of each input. Costs resources of the user.
        """
        record = await find_request(self._session, request)
        attributes = {**repeated(record, {}), "state": "Committed", "priority": 500}
        attributes["mounts"] = _with_inputs(attributes["mounts"], inputs or {})
        if name:
            attributes["name"] = name
        created = await self._session.api.create("container_requests", attributes)
        return encoded({"request": created["uuid"], "state": created["state"]})

    async def _container(self, request: Record) -> Record | None:
        if not request["container_uuid"]:
            return None
        return await self._session.api.get("containers", request["container_uuid"])


def _with_inputs(mounts: Mapping[str, Any], inputs: Mapping[str, str]) -> dict[str, Any]:
    """The mounts of a request with other contents of some inputs. Raises Invalid."""
    changed = dict(mounts)
    for path, content in inputs.items():
        mount = mounts.get(path)
        if mount is None or mount.get("kind") != "collection" or mount.get("writable"):
            raise Invalid(f"inputs: {path[:200]}: the request has no input of a collection there")
        named = "portable_data_hash" if is_pdh(content) else "uuid"
        kept_fields = {
            key: value for key, value in mount.items() if key not in ("portable_data_hash", "uuid")
        }
        changed[path] = {**kept_fields, named: content}
    return changed


def _row(outcome: RequestOutcome) -> dict[str, Any]:
    request = outcome.request
    return {
        "uuid": request["uuid"],
        "name": shortened(request["name"] or ""),
        "state": shown_state(outcome),
        "created_at": request["created_at"],
        "command": shortened(shown_command(request), longest=200),
    }


def _between(number: int, most: int, *, least: int = 1) -> int:
    return max(least, min(number, most))
