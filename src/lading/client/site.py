"""The Python API: `lading.connect()` gives a `Site`, `Site.run` a `Run`.

    import lading

    with lading.connect() as site:
        sort = site.run(["sort", "/in/a.txt"], inputs={"/in/a.txt": "a.txt"}, stdout="sorted")
        count = site.run(["wc", "-l", "/in/sorted"], inputs={"/in": sort.output})
        print(count.result().stdout)

A run is submitted at once, and its inputs may be outputs of runs that have not ended: the server
goes on by itself. Runs that are submitted within some milliseconds are one call.

All calls block, except `Run.__await__`; an event loop in a thread of its own does the work, so the
API can be used in scripts, notebooks and other event loops alike.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import html
import os
import re
import threading
from collections.abc import Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.collections import download, read_file
from lading.client.deposits import arrange, deposit, label_of
from lading.client.environment import default_data_directory, find_server
from lading.client.images.links import list_images
from lading.client.outcomes import RequestOutcome, changes, ended_among, until_changed
from lading.client.transport import Transport
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Invalid, LadingError, NotFound

_Answer = TypeVar("_Answer")
_TOGETHER = 0.005
"""Seconds for which submissions are collected: less than one call takes."""
_BATCH = 1000
"""Requests of one call, the most that a server accepts."""
_LONGEST = 1.0
_LAST_LINES = 20
"""Lines of the standard error that the message of a failed run has."""
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[0-9:.]{18}Z ")


class RunFailed(LadingError):
    """A run has not succeeded. `run` is the run; the message has the last lines of its log."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


class Output:
    """The output of a run, or a part of it: as an input of other runs, and to read.

    Reading waits for the end of the run.
    """

    def __init__(self, run: Run, path: str = "") -> None:
        self._run, self._path = run, path.strip("/")

    def __getitem__(self, path: str) -> Output:
        """The file or directory with this path below this one. Does not wait."""
        return Output(self._run, f"{self._path}/{path}")

    def __iter__(self) -> Iterator[str]:
        """The paths of all files, relative to this directory."""
        return iter(self._run.site.call(self._run.paths_below(self._path)))

    def read_bytes(self) -> bytes:
        """The content of the file. Raises RunFailed, NotFound."""
        return self._run.site.call(self._run.read(self._path))

    def read_text(self, encoding: str = "utf-8") -> str:
        """The text of the file."""
        return self.read_bytes().decode(encoding)

    def save(self, directory: str | Path) -> Path:
        """Write the files of this directory into one here, which is made; its path."""
        place = Path(directory)
        self._run.site.call(self._run.save(self._path, place))
        return place

    def mount(self, uuid: str) -> Record:
        """The mount that shows it; `uuid` is that of the run."""
        mount: Record = {"kind": "output", "container_request": uuid}
        return {**mount, "path": self._path} if self._path else mount

    @property
    def run(self) -> Run:
        """The run that makes it."""
        return self._run

    def __repr__(self) -> str:
        return f"<output {self._path or '/'} of {self._run!r}>"


Source: TypeAlias = "str | Path | Run | Output | Mapping[str, Any]"
"""An input: a path here, a run or a part of its output, or a mount as the API takes it."""


class Run:
    """A command in a container: submitted, running, or ended."""

    def __init__(self, site: Site, name: str | None, record: Record | None = None) -> None:
        self.site = site
        self.name = name
        self._record = record
        self.queued: concurrent.futures.Future[None] = concurrent.futures.Future()
        """Done when the request is next to be sent."""
        self.placed: concurrent.futures.Future[str] = concurrent.futures.Future()
        """The uuid, once the server has it."""
        self._ended: concurrent.futures.Future[RequestOutcome] = concurrent.futures.Future()
        if record is not None:
            self.queued.set_result(None)
            self.placed.set_result(record["uuid"])

    @property
    def uuid(self) -> str:
        """The uuid of its request; waits until the server has it. Raises what it was refused
        with.
        """
        return self.placed.result()

    @property
    def output(self) -> Output:
        """Its output, which need not exist yet."""
        return Output(self)

    def done(self) -> bool:
        """Whether it has ended."""
        return self._ended.done()

    def wait(self, timeout: float | None = None) -> RequestOutcome:
        """Wait for its end, also for a bad one. Raises TimeoutError after `timeout` seconds."""
        self.site.watch(self)
        return self._ended.result(timeout)

    def result(self, timeout: float | None = None) -> Self:
        """Wait until it has succeeded; itself. Raises RunFailed, TimeoutError."""
        outcome = self.wait(timeout)
        if outcome.exit_code:
            raise self._failure(outcome)
        return self

    def exception(self, timeout: float | None = None) -> LadingError | None:
        """Wait for its end; the error that `result` raises, or None."""
        try:
            self.result(timeout)
        except LadingError as error:
            return error
        return None

    @property
    def exit_code(self) -> int:
        """Wait for its end; the exit code of the command, 1 if the system ended it."""
        return self.wait().exit_code

    @property
    def stdout(self) -> str:
        """Wait for its end; what the command wrote to its standard output."""
        self.wait()
        return self.site.call(self.log("stdout.txt"))

    @property
    def stderr(self) -> str:
        """Wait for its end; what the command wrote to its standard error."""
        self.wait()
        return self.site.call(self.log("stderr.txt"))

    def cancel(self) -> None:
        """Cancel it, unless it has ended."""
        self.site.call(self.site.api.action("container_requests", self.uuid, "cancel"))

    def why(self) -> Record:
        """What was reused and why, or what it waits for, as `lading request why --json`."""
        found: Record = self.site.call(
            self.site.api.action("container_requests", self.uuid, "why", method="GET")
        )
        return found

    def __await__(self) -> Generator[Any, None, Self]:
        """Wait in any event loop, as `result`."""
        return self._wait().__await__()

    async def _wait(self) -> Self:
        self.site.watch(self)
        outcome = await asyncio.wrap_future(self._ended)
        if outcome.exit_code:
            raise await asyncio.to_thread(self._failure, outcome)
        return self

    def __repr__(self) -> str:
        return f"<run {self.name or ''} {self._state()}>"

    def _repr_html_(self) -> str:
        """A row for notebooks."""
        uuid = self.placed.result() if self.placed.done() else ""
        cells = (self.name or "", self._state(), uuid)
        return f"<table><tr>{''.join(f'<td>{html.escape(one)}</td>' for one in cells)}</tr></table>"

    def _state(self) -> str:
        if not self._ended.done():
            return "submitted"
        if self._ended.exception():
            return "refused"
        return "failed" if self._ended.result().exit_code else "succeeded"

    def _failure(self, outcome: RequestOutcome) -> RunFailed:
        lines = self.site.call(self.log("stderr.txt")).splitlines()[-_LAST_LINES:]
        told = "".join(f"\n  {line}" for line in lines)
        return RunFailed(f"{self.name or self.uuid}: {outcome.fault}{told}", self)

    # What the event loop of the site does.

    def accept(self, uuid: str) -> None:
        """The server has created the request."""
        self.placed.set_result(uuid)

    def refuse(self, error: BaseException) -> None:
        """The request was not created."""
        for one in (self.queued, self.placed, self._ended):
            if not one.done():
                one.set_exception(error)

    def end(self, outcome: RequestOutcome) -> None:
        """The request is Final."""
        if not self._ended.done():
            self._ended.set_result(outcome)

    async def log(self, name: str) -> str:
        """The text of a file of its log, "" if there is none."""
        container = (await asyncio.wrap_future(self._ended)).container
        if container is None:
            return ""
        request = self.uuid
        try:
            path = f"container_requests/{request}/log/{container['uuid']}/{name}"
            return await self.site.text(path)
        except NotFound:
            return ""

    async def tree(self) -> FileTree:
        """The files of its output."""
        outcome = await asyncio.wrap_future(self._ended)
        if outcome.exit_code:
            raise await asyncio.to_thread(self._failure, outcome)
        container = outcome.container or {}
        record = await self.site.api.get("collections", container["output"])
        return filetree.from_manifest(record["manifest_text"])

    async def paths_below(self, path: str) -> list[str]:
        """The paths of the files below a directory of its output. Raises NotFound."""
        found = [name for name, _ in filetree.files(filetree.subtree(await self.tree(), path))]
        return sorted(found)

    async def read(self, path: str) -> bytes:
        """The content of a file of its output. Raises NotFound, Invalid for a directory."""
        node = filetree.get(await self.tree(), path)
        if not isinstance(node, File):
            raise Invalid(f"{path or 'output'}: is a directory; name a file in it")
        async with aclosing(read_file(self.site.blocks, node)) as pieces:
            return b"".join([piece async for piece in pieces])

    async def save(self, path: str, place: Path) -> None:
        """Write the files below a directory of its output to disk."""
        await download(self.site.blocks, filetree.subtree(await self.tree(), path), place)


class Site:
    """A server of Lading, with one token. Close it, or use it as a context."""

    def __init__(self, transport: AbstractAsyncContextManager[Transport], token: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lading", daemon=True)
        self._thread.start()
        self._opened = AsyncExitStack()
        self._queue: list[tuple[Run, Record]] = []
        self._waiting: dict[str, Run] = {}
        self._submitting: set[asyncio.Task[None]] = set()
        self._watchers: set[asyncio.Task[None]] = set()
        self._sending = self._watching = False
        self.api, self.blocks = self.call(self._open(transport, token))

    def run(
        self,
        command: Sequence[str],
        *,
        inputs: Mapping[str, Source] | None = None,
        image: str | None = None,
        vcpus: int = 1,
        ram: int = 256 << 20,
        env: Mapping[str, str] | None = None,
        name: str | None = None,
        stdout: str | None = None,
        network: bool = False,
        reuse: bool = True,
        priority: int = 500,
        project: str | None = None,
        after: Iterable[Run] = (),
        **attributes: Any,
    ) -> Run:
        """Submit a command, and return at once.

        It starts in /out; the files that it leaves there are its output. `inputs`: what is mounted
        at each path. `image`: its name, hash or collection; the one added last by default. `ram` in
        bytes. `stdout`: a file of the output that takes the standard output. `reuse`: whether an
        earlier result may be used. `after`: runs that must have succeeded before. `attributes` are
        those of a container request.
        """
        constraints: Record = {"vcpus": vcpus, "ram": ram}
        if network:
            constraints |= {"API": True, "internet": True}
        mounts: Record = {"/out": {"kind": "tmp"}}
        if stdout is not None:
            mounts["stdout"] = {"kind": "file", "path": f"/out/{stdout}"}
        body: Record = {
            "state": "Committed",
            "command": list(command),
            "container_image": image,
            "cwd": "/out",
            "output_path": "/out",
            "mounts": mounts,
            "environment": dict(env or {}),
            "runtime_constraints": constraints,
            "priority": priority,
            "use_existing": reuse,
            "name": name,
            **({"owner_uuid": project} if project else {}),
            **attributes,
        }
        made = Run(self, name or Path(command[0]).name)
        work = self._prepare(made, body, dict(inputs or {}), list(after))
        self._start(work, self._submitting)
        return made

    def find(self, uuid: str) -> Run:
        """The run with the uuid of its request, submitted by whatever program. Raises NotFound."""
        record = self.call(self.api.get("container_requests", uuid))
        return Run(self, record["name"], record)

    def put(self, path: str | Path) -> str:
        """Store a file or directory; its portable data hash."""
        return str(self.call(self._deposit(Path(path)))["portable_data_hash"])

    def call(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run a coroutine in the loop of the site, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def watch(self, run: Run) -> None:
        """Have the end of a run noticed."""
        if not run.done():
            self._start(self._expect(run), self._watchers)

    def close(self) -> None:
        """Close the connections. Runs go on; `find` finds them again."""
        if not self._thread.is_alive():
            return
        self.call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def text(self, path: str) -> str:
        """The text of a log file, without the timestamps of its lines. Raises NotFound."""
        response = await self.api.raw("GET", path)
        lines = response.body.decode("utf-8", "replace").splitlines(keepends=True)
        return "".join(_STAMP.sub("", line) for line in lines)

    def _start(self, work: Coroutine[Any, Any, None], owner: set[asyncio.Task[None]]) -> None:
        def begin() -> None:
            task = self._loop.create_task(work)
            owner.add(task)
            task.add_done_callback(owner.discard)

        self._loop.call_soon_threadsafe(begin)

    async def _open(
        self, opening: AbstractAsyncContextManager[Transport], token: str
    ) -> tuple[ApiClient, BlockClient]:
        transport = await self._opened.enter_async_context(opening)
        return ApiClient(transport, token), BlockClient(transport, token)

    async def _close(self) -> None:
        # What was submitted is sent; only the waiting ends.
        await asyncio.gather(*self._submitting, return_exceptions=True)
        for task in self._watchers:
            task.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        await self._opened.aclose()

    async def _prepare(
        self, run: Run, body: Record, inputs: dict[str, Source], after: list[Run]
    ) -> None:
        try:
            if body["container_image"] is None:
                body["container_image"] = await self._newest_image()
            for target, source in inputs.items():
                body["mounts"][target] = await self._mount(source)
            body["depends_on"] = after
            sources = [one.run for one in body["mounts"].values() if isinstance(one, Output)]
            for one in (*sources, *after):
                await asyncio.wrap_future(one.queued)
        except (LadingError, OSError) as error:
            run.refuse(error)
            return
        self._queue.append((run, body))
        run.queued.set_result(None)
        if not self._sending:
            self._sending = True
            await self._send()

    async def _send(self) -> None:
        """Send what is queued, in batches, until nothing is left."""
        try:
            while self._queue:
                await asyncio.sleep(_TOGETHER)
                batch, self._queue = self._queue[:_BATCH], self._queue[_BATCH:]
                try:
                    await self._send_batch(batch)
                except LadingError as error:
                    for run, _ in batch:
                        run.refuse(error)
        finally:
            self._sending = False

    async def _send_batch(self, batch: list[tuple[Run, Record]]) -> None:
        numbers = {run: f"#{number}" for number, (run, _) in enumerate(batch)}
        bodies = []
        for _, body in batch:
            mounts = {
                target: _bound(one, numbers) if isinstance(one, Output) else one
                for target, one in body["mounts"].items()
            }
            named = [numbers.get(one) or one.uuid for one in body["depends_on"]]
            bodies.append({**body, "mounts": mounts, "depends_on": named})
        answer = await self.api.action(
            "container_requests",
            None,
            "batch",
            body={"container_requests": bodies, "atomic": False, "select": ["uuid"]},
        )
        for (run, _), item in zip(batch, answer["items"], strict=True):
            if "uuid" in item:
                run.accept(item["uuid"])
            else:
                run.refuse(Invalid("; ".join(item["errors"])))

    async def _mount(self, source: Source) -> Record | Output:
        match source:
            case Run():
                return source.output
            case Output():
                return source
            case Mapping():
                return dict(source)
            case _:
                return await self._deposit(Path(source))

    async def _deposit(self, path: Path) -> Record:
        sources = arrange([path])
        stored = await deposit(self.api, self.blocks, sources, label=label_of(path))
        mount = {"kind": "collection", "portable_data_hash": stored.portable_data_hash}
        return mount if "" in sources else {**mount, "path": next(iter(sources))}

    async def _newest_image(self) -> str:
        images = await list_images(self.api)
        if not images:
            raise Invalid("no image yet; add one with `lading image add`")
        return images[0].pdh

    async def _expect(self, run: Run) -> None:
        try:
            uuid = await asyncio.wrap_future(run.placed)
        except (LadingError, OSError):
            return
        self._waiting[uuid] = run
        if self._watching:
            return
        self._watching = True
        try:
            await self._watch()
        finally:
            self._watching = False

    async def _watch(self) -> None:
        pause = _TOGETHER
        async with changes(self.api) as changed:
            while self._waiting:
                try:
                    found = await ended_among(self.api, list(self._waiting))
                except LadingError as error:
                    waiting, self._waiting = self._waiting, {}
                    for run in waiting.values():
                        run.refuse(error)
                    return
                for one in found:
                    self._waiting.pop(one.request["uuid"]).end(one)
                pause = _TOGETHER if found else min(_LONGEST, pause * 1.6)
                await until_changed(changed, pause)


def connect(data: str | Path | None = None) -> Site:
    """The server that ARVADOS_API_HOST and ARVADOS_API_TOKEN name, or the one of this machine.

    `data`: its data directory. Raises Invalid when there is none.
    """
    place = Path(data) if data is not None else default_data_directory(os.environ)
    server = find_server({} if data is not None else os.environ, place)
    return Site(server.transport(), server.token)


def _bound(output: Output, numbers: Mapping[Run, str]) -> Record:
    return output.mount(numbers.get(output.run) or output.run.uuid)
