"""The handlers of the HPC daemon's calls.

A refused call changes nothing: everything is checked before anything is written. Source:
docs/spec/hpc-daemon, section Commands, and the sections before and after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lading import __version__
from lading.core.errors import Invalid, MethodNotAllowed, NotFound
from lading.core.hpc import daemon_configuration, mpi_files
from lading.core.hpc.daemon_document import COMMANDS, LOGS, ROUTES, DaemonCall, openapi
from lading.core.hpc.daemon_states import CodeStatus, ResultStatus
from lading.core.protocols.daemon_http import (
    FormPart,
    RequestHead,
    Searchable,
    byte_range,
    form_parts,
    media_type,
    waiting_time,
)
from lading.hpc.code import Code
from lading.hpc.daemon_memory import DaemonMemory
from lading.hpc.layout import OPEN, PRIVATE, DaemonLayout, append, make_folder, read_text, write
from lading.hpc.notices import Notices
from lading.hpc.service import MOST_JSON, DaemonResponse, success

# Bytes written at a time.
_CHUNK = 1 << 20
# Bytes of a log in one response.
_MOST_LOG = 4 << 20
_SECRET = (
    "TLS_PUBLIC_CERT",
    "TLS_PRIVATE_KEY",
    "AUTHORIZATION",
    "HPCAAS_PORT",
    "HPCAAS_ALLOW_HTTP",
)
_USUAL = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
_logger = logging.getLogger("lading.hpc")


class Endpoints:
    """Answers calls. `deliver` starts the delivery of the results; `inherited` is the container's
    environment.

    `percent`: the progress that the code reports.
    """

    def __init__(
        self,
        layout: DaemonLayout,
        record: DaemonMemory,
        code: Code,
        *,
        notices: Notices,
        deliver: Callable[[], None],
        percent: Callable[[], float | None],
        inherited: Mapping[str, str],
    ) -> None:
        self._layout, self._record, self._code, self._deliver = layout, record, code, deliver
        self._notices, self._read_percent = notices, percent
        self._inherited = {name: value for name, value in inherited.items() if name not in _SECRET}

    async def answer(self, head: RequestHead, body: Searchable) -> DaemonResponse:
        """The answer to one request. Raises LadingError and OSError."""
        path = head.path.rstrip("/") or "/"
        route = ROUTES.get(path)
        if route is None:
            raise NotFound("no such path; GET /v1/openapi.json lists the paths")
        if head.method != route.method:
            raise MethodNotAllowed(f"{path} takes {route.method} only")
        match route.call:
            case DaemonCall.CODE_CONFIGURATION:
                return await self._configure_code(head, body)
            case DaemonCall.DAEMON_CONFIGURATION:
                return self._configure_daemon(head, body)
            case DaemonCall.CODE_NAME:
                return self._name_code(head, body)
            case DaemonCall.COMMAND:
                return await self._command(head, body)
            case DaemonCall.QUERY:
                return await self._state(head)
            case DaemonCall.HEARTBEAT:
                return _heartbeat(head)
            case DaemonCall.LOG:
                return self._log(head, path.rpartition("/")[2])
            case DaemonCall.DOCUMENT:
                return DaemonResponse(200, json.dumps(openapi(__version__)).encode())

    # Configuration.

    async def _configure_code(self, head: RequestHead, body: Searchable) -> DaemonResponse:
        kind, parameters = media_type(head.headers.get("content-type", ""))
        if kind == "multipart/form-data":
            # Beside the loop: the code's processes are followed meanwhile, and others are answered.
            return await asyncio.to_thread(self._take_files, body, parameters.get("boundary", ""))
        read = _json(kind, body)
        if daemon_configuration.is_for_daemon(read):
            return self._set_up(daemon_configuration.daemon_parameters(read))
        variables = daemon_configuration.code_parameters(read)
        parameters = {**self._record.parameters, **variables}
        daemon_configuration.check_parameters(parameters)
        self._record.parameters = parameters
        append(self._layout.base / "variables", mpi_files.variable_lines(variables), mode=OPEN)
        self._write_parameters()
        self._record.save()
        return success({"message": "parameter accepted", "parameters": list(variables)})

    def _take_files(self, body: Searchable, boundary: str) -> DaemonResponse:
        parts = form_parts(body, boundary)
        if not parts:
            raise Invalid("the form has no files")
        names = [
            daemon_configuration.file_name(form_part.filename or form_part.name)
            for form_part in parts
        ]
        # All names are checked before the first file is written: a refused call changes nothing.
        for name in names:
            if (self._layout.base / "files" / name).is_dir():
                raise Invalid(f"file name {name[:60]!r} is a directory there")
        saved = [
            self._save(name, form_part, body) for name, form_part in zip(names, parts, strict=True)
        ]
        return success({"message": "parameter accepted", "files": saved})

    def _save(self, name: str, form_part: FormPart, body: Searchable) -> dict[str, Any]:
        target = self._layout.base / "files" / name
        digest = hashlib.sha256()
        # Beside its place first, then renamed: the code never sees a part of a file. Synced, as the
        # answer acknowledges it.
        aside = target.with_name(f".{secrets.token_hex(8)}")
        try:
            with open(aside, "xb") as file:
                # The umask does not apply: the code runs as another user and may change these
                # files.
                os.fchmod(file.fileno(), OPEN)
                for start in range(form_part.start, form_part.end, _CHUNK):
                    chunk = body[start : min(form_part.end, start + _CHUNK)]
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                # The size in the response is a promise: the file is on disk before it has its name.
                os.fsync(file.fileno())
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
        path, size = self._layout.outside(target), form_part.end - form_part.start
        return {"name": name, "path": path, "size": size, "sha256": digest.hexdigest()}

    def _configure_daemon(self, head: RequestHead, body: Searchable) -> DaemonResponse:
        kind, parameters = media_type(head.headers.get("content-type", ""))
        if kind == "multipart/form-data":
            return self._set_up(_texts(form_parts(body, parameters.get("boundary", "")), body))
        return self._set_up(daemon_configuration.daemon_parameters(_json(kind, body)))

    def _name_code(self, head: RequestHead, body: Searchable) -> DaemonResponse:
        kind, _ = media_type(head.headers.get("content-type", ""))
        read = _json(kind, body)
        if not isinstance(read, dict) or "codeName" not in read:
            raise Invalid("the body is not an object with codeName")
        self._set_up({"codeName": read["codeName"]})
        return success({"message": "name accepted"})

    def _set_up(self, changes: Mapping[str, Any]) -> DaemonResponse:
        record = self._record
        started = record.code is not CodeStatus.WAITING
        applied = daemon_configuration.apply(
            record.settings, changes, started=started, allow_http=record.allow_http
        )
        by_name = {
            daemon_configuration.ALIASES.get(name, name): value for name, value in changes.items()
        }
        record.given = {**record.given, **{key: by_name[key] for key in applied.accepted}}
        record.settings = applied.settings
        # Once the code has started, the files that it may have read stay as they are.
        if not started:
            self._write_cluster()
        record.save()
        data = {
            "message": "daemon updated",
            "accepted": list(applied.accepted),
            "ignored": list(applied.ignored),
        }
        return success(data | ({"warnings": list(applied.warnings)} if applied.warnings else {}))

    def _write_parameters(self) -> None:
        parameters, base = self._record.parameters, self._layout.base
        for folder in (base / "parameters", base / "runtime"):
            write(folder / "parameters.json", mpi_files.json_text(parameters), mode=OPEN)
            write(folder / "parameters", mpi_files.variable_lines(parameters), mode=OPEN)
        self._write_bashrc()

    def _write_bashrc(self) -> None:
        place = self._layout.bashrc
        exports = mpi_files.exports(
            mpi_files.environment(self._record.settings, self._record.parameters)
        )
        make_folder(place.parent, mode=0o700)
        write(place, mpi_files.with_block(read_text(place), "environment", exports), mode=0o644)

    def _write_cluster(self) -> None:
        settings, layout = self._record.settings, self._layout
        runtime, ssh = layout.base / "runtime", layout.ssh
        write(
            runtime / "config.json",
            mpi_files.json_text(mpi_files.runtime_config(settings)),
            mode=0o644,
        )
        write(runtime / "config", mpi_files.runtime_lines(settings), mode=0o644)
        write(
            runtime / "hostfile",
            mpi_files.host_file(settings.addresses, slots=settings.slots),
            mode=0o644,
        )
        make_folder(ssh.parent, mode=0o700)
        make_folder(ssh, mode=0o700)
        # sshd refuses a directory that others can write to.
        ssh.chmod(0o700)
        identity = f"{layout.outside(ssh)}/private_key"
        write(
            ssh / "config",
            mpi_files.ssh_config(settings.addresses, identity=identity),
            mode=PRIVATE,
        )
        if settings.private_key:
            write(ssh / "private_key", settings.private_key, mode=PRIVATE)
        if settings.public_key:
            write(ssh / "authorized_keys", settings.public_key, mode=0o644)
        self._write_hosts()
        self._write_bashrc()

    def _write_hosts(self) -> None:
        hosts_file = self._layout.root / "etc" / "hosts"
        lines = mpi_files.hosts(self._record.settings.addresses)
        if not lines or not hosts_file.parent.is_dir():
            return
        text = mpi_files.with_block(read_text(hosts_file), "cluster", lines)
        try:
            write(hosts_file, text, mode=0o644)
        except OSError:
            # Engines mount the file, and then it cannot be replaced, only written.
            hosts_file.write_text(text)

    # Commands.

    async def _command(self, head: RequestHead, body: Searchable) -> DaemonResponse:
        kind, _ = media_type(head.headers.get("content-type", ""))
        given = _json(kind, body)
        command = given.get("command") if isinstance(given, dict) else None
        if isinstance(command, dict):
            # The first schema of the call can also be read as an object that has the text.
            command = command.get("value")
        word = command.lower() if isinstance(command, str) else ""
        if word not in COMMANDS:
            raise Invalid(f"need one of {', '.join(COMMANDS)}")
        if word == "start":
            self._code.start(self.environment(), mark=secrets.token_hex(8))
            return success({"message": "code started"})
        if word == "kill":
            await self._code.kill()
            return success({"message": "code killed"})
        if self._record.code is CodeStatus.RUNNING or self._record.result is ResultStatus.UPLOADING:
            raise Invalid("the results are delivered when the code has ended, and once at a time")
        self._deliver()
        return success({"message": "upload started"})

    def environment(self) -> dict[str, str]:
        """Environment of the code: the container's environment without secrets of the daemon, and
        the parameters.
        """
        own = mpi_files.environment(self._record.settings, self._record.parameters)
        return _USUAL | {"HOME": self._layout.home} | self._inherited | own

    # Questions.

    async def _state(self, head: RequestHead) -> DaemonResponse:
        """The states; with `If-None-Match` and `Prefer: wait=SECONDS` as soon as they differ from
        the named ones.
        """
        tag, wait = (
            head.headers.get("if-none-match", ""),
            waiting_time(head.headers.get("prefer", "")),
        )
        answer = self._tagged()
        # No news within the time: the present state is the answer.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while wait and answer.headers["ETag"] == tag:
                    await self._news()
                    answer = self._tagged()
        return answer

    def _tagged(self) -> DaemonResponse:
        answer = success(self.query())
        # The tag follows from the answer itself, so that every change of it is news.
        tag = hashlib.sha256(answer.body).hexdigest()[:16]
        return replace(answer, headers={**answer.headers, "ETag": f'"{tag}"'})

    async def _news(self) -> None:
        sources = [
            asyncio.ensure_future(coroutine)
            for coroutine in (self._record.changed(), self._notices.one())
        ]
        try:
            await asyncio.wait(sources, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for source in sources:
                source.cancel()
            await asyncio.gather(*sources, return_exceptions=True)

    def query(self) -> dict[str, Any]:
        """The states, and their explanation (docs/spec/hpc-daemon, section Query)."""
        record = self._record
        sizes = {name: _size(self._code.log(name)) for name in LOGS}
        return {
            "containerStatus": record.container,
            "codeStatus": record.code,
            "resultStatus": record.result,
            "percentComplete": self._percent(),
            "codeExitStatus": record.exit_code,
            "startedBy": record.started_by,
            "reason": record.reason,
            "ranks": {
                "worldRank": record.settings.world_rank,
                "worldSize": record.settings.world_size,
            },
            "logs": sizes,
            "results": record.results,
        }

    def _percent(self) -> float | None:
        if self._record.code is CodeStatus.STOPPED:
            return 100.0
        return self._read_percent()

    def _log(self, head: RequestHead, name: str) -> DaemonResponse:
        path = self._code.log(name)
        size = _size(path)
        requested = head.headers.get("range", "")
        span = byte_range(requested, size)
        kind = {"Content-Type": "text/plain; charset=utf-8", "Accept-Ranges": "bytes"}
        if span is None:
            return DaemonResponse(416, b"", {**kind, "Content-Range": f"bytes */{size}"})
        start, end = span
        # A piece at a time: the rest is asked for with another range.
        end = min(end, start + _MOST_LOG)
        data = b""
        if end > start:
            with open(path, "rb") as file:
                file.seek(start)
                data = file.read(end - start)
        if not requested and len(data) == size:
            return DaemonResponse(200, data, kind)
        return DaemonResponse(
            206,
            data,
            {**kind, "Content-Range": f"bytes {start}-{max(start, start + len(data) - 1)}/{size}"},
        )


def _heartbeat(head: RequestHead) -> DaemonResponse:
    now = datetime.now(UTC).strftime("%a %b %e %H:%M:%S UTC %Y")
    if media_type(head.headers.get("accept", ""))[0] == "text/plain":
        return DaemonResponse(200, now.encode(), {"Content-Type": "text/plain; charset=utf-8"})
    return success({"time": now})


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _texts(parts: list[FormPart], body: Searchable) -> dict[str, str]:
    texts = {}
    for form_part in parts:
        if form_part.end - form_part.start > MOST_JSON:
            raise Invalid(f"{form_part.name[:60]} is longer than {MOST_JSON} bytes")
        try:
            texts[form_part.name] = body[form_part.start : form_part.end].decode()
        except UnicodeDecodeError as error:
            raise Invalid(f"{form_part.name[:60]} is not a text in UTF-8") from error
    if not texts:
        raise Invalid("the form has no parts")
    return texts


def _json(kind: str, body: Searchable) -> object:
    if kind != "application/json":
        raise Invalid(
            f"the media type {kind[:60]!r} is not application/json or multipart/form-data"
        )
    try:
        value: object = json.loads(body[0 : len(body)])
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the body is not JSON: {error}") from error
    return value
