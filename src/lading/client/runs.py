"""Runs of commands in containers: submitted, running, or ended; their outputs, and many at once.

`lading.client.site` makes them. A run shows itself as a row of a table in notebooks, `Runs` as a
table.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import html
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.files.downloads import download, read_file
from lading.client.outcomes import RequestOutcome
from lading.client.request_options import check_sendable
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Invalid, LadingError, NotFound, TooLarge

_LAST_LINES = 20
"""Lines of the standard error that the message of a failed run has."""
_SHOWN = 20
"""Rows of a table in a notebook."""
_Value = TypeVar("_Value")
Source: TypeAlias = "str | Path | bytes | Run | Output | Mapping[str, Any]"
"""An input: a path here, the content of a file, a run or a part of its output, or a mount as the
API takes it."""


async def follow(future: concurrent.futures.Future[_Value]) -> _Value:
    """Wait for a future of any thread. A cancelled wait does not change the future."""
    return await asyncio.shield(asyncio.wrap_future(future))


@contextlib.contextmanager
def errors_refuse(refuse: Callable[[Exception], None]) -> Iterator[None]:
    """Give an exception of the block to the runs that it belongs to. Any exception: their program
    is another thread, which nothing else would wake.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - it is raised where the result of the run is needed
        refuse(error)


class RunFailed(LadingError):
    """A run has not succeeded. `run` is the run, `exit_code` that of its command (124 to 127 if
    it has none), `log` the last lines of its standard error; the message has them, too.
    """

    def __init__(self, message: str, run: Run, *, exit_code: int, log: str) -> None:
        super().__init__(message)
        self.run, self.exit_code, self.log = run, exit_code, log


class Output:
    """The output of a run, or a part of it: as an input of other runs, and to read.

    Reading waits for the end of the run.
    """

    def __init__(self, run: Run, path: str = "", *, of_failed: bool = False) -> None:
        self._run, self._path, self._of_failed = run, path.strip("/"), of_failed

    def __getitem__(self, path: str) -> Output:
        """The file or directory with this path below this one. Does not wait."""
        return Output(self._run, f"{self._path}/{path}", of_failed=self._of_failed)

    def __iter__(self) -> Iterator[str]:
        """The paths of all files, relative to this directory."""
        found = self._run.paths_below(self._path, of_failed=self._of_failed)
        return iter(self._run.site.call(found))

    def read_bytes(self) -> bytes:
        """The content of the file. Raises RunFailed, NotFound."""
        return self._run.site.call(self._run.read(self._path, of_failed=self._of_failed))

    def read_text(self, encoding: str = "utf-8") -> str:
        """The text of the file."""
        return self.read_bytes().decode(encoding)

    def save(self, directory: str | Path) -> Path:
        """Write the files of this directory into one here, which is made; its path."""
        place = Path(directory)
        self._run.site.call(self._run.save(self._path, place, of_failed=self._of_failed))
        return place

    def mount(self, uuid: str) -> Record:
        """The mount that shows it; `uuid` is that of the run."""
        mount: Record = {"kind": "output", "container_request": uuid}
        return {**mount, "path": self._path} if self._path else mount

    @property
    def name(self) -> str:
        """The last part of its path; "" for a whole output."""
        return self._path.rpartition("/")[2]

    @property
    def run(self) -> Run:
        """The run that makes it."""
        return self._run

    def __repr__(self) -> str:
        return f"<output {self._path or '/'} of {self._run!r}>"


class RunSite(Protocol):
    """The part of a `client.site.Site` that its runs use."""

    api: ApiClient
    blocks: BlockClient

    def call(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        """Run a coroutine in the loop of the site, and wait for its result."""

    def watch(self, run: Run) -> None:
        """Have the end of a run noticed, from now on."""

    async def text(self, path: str) -> str:
        """The text of an answer of the API."""


def check_inputs(inputs: Mapping[str, Source]) -> None:
    """Refuse inputs that cannot be mounted, before a request is sent. Raises Invalid."""
    for target, source in inputs.items():
        # The key of a mapping of the program: any object at all.
        if not isinstance(target, str):
            raise Invalid(f"inputs: {plain_line(str(target))}: give the path as text")
        check_sendable({"inputs": target})
        if not target.startswith("/") and target != "stdin":
            raise Invalid(f"inputs: {target}: must be an absolute path in the container")
        if isinstance(source, str | Path):
            if not Path(source).exists():
                raise Invalid(f"inputs: {target}: {source}: no such file or directory")
        elif not isinstance(source, bytes | Run | Output | Mapping):
            raise Invalid(
                f"inputs: {target}: is of type {type(source).__name__}; give a path, bytes, a run, "
                "a part of an output, or a mount"
            )
        elif isinstance(source, Mapping):
            check_sendable({f"inputs: {target}": dict(source)})


def check_runs(after: object) -> list[Run]:
    """The runs that must have succeeded before; `after` may be one run. Raises Invalid."""
    if isinstance(after, Run):
        return [after]
    if isinstance(after, str) or not isinstance(after, Iterable):
        raise Invalid(f"after: is of type {type(after).__name__}; give a list of runs")
    runs = list(after)
    for run in runs:
        if not isinstance(run, Run):
            raise Invalid(
                f"after: {plain_line(str(run))[:80]} is of type {type(run).__name__}; give runs,"
                " for example site.request(UUID)"
            )
    return runs


class Run:
    """A command in a container: submitted, running, or ended."""

    def __init__(self, site: RunSite, name: str | None, record: Record | None = None) -> None:
        self.site = site
        self.name = name
        self._record = record
        # Futures of threads, not of asyncio: the program waits in its own thread, the loop of the
        # site sets them.
        self.queued: concurrent.futures.Future[None] = concurrent.futures.Future()
        """Done when the request is next to be sent."""
        self.placed: concurrent.futures.Future[str] = concurrent.futures.Future()
        """The uuid, once the server has it."""
        self.ended: concurrent.futures.Future[RequestOutcome] = concurrent.futures.Future()
        """Outcome, once it is known; `Site.watch` sets it."""
        if record is not None:
            self.queued.set_result(None)
            self.placed.set_result(record["uuid"])

    @property
    def uuid(self) -> str:
        """The uuid of its request; waits until the server has it. Raises the error of a refusal."""
        return self.placed.result()

    @property
    def output(self) -> Output:
        """Its output, which need not exist yet."""
        return Output(self)

    @property
    def leftovers(self) -> Output:
        """The output of the command, also after a failure: its log files, for example."""
        return Output(self, of_failed=True)

    def done(self) -> bool:
        """Whether it is known to have ended. Does not wait."""
        self.site.watch(self)
        return self.ended.done()

    @property
    def state(self) -> str:
        """In a word: submitted, succeeded, failed with its exit code, refused. Does not wait."""
        if not self.done():
            return "submitted"
        if self.ended.exception():
            return "refused"
        code = self.ended.result().exit_code
        return f"failed {code}" if code else "succeeded"

    def wait(self, timeout: float | None = None) -> RequestOutcome:
        """Wait for its end, also for a bad one. Raises TimeoutError after `timeout` seconds."""
        self.site.watch(self)
        return self.ended.result(timeout)

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
        """Wait for its end; the exit code of the command, 124 to 127 if it has none."""
        return self.wait().exit_code

    @property
    def stdout(self) -> str:
        """Wait for its end; the standard output of the command."""
        self.wait()
        return self.site.call(self.log("stdout.txt"))

    @property
    def stderr(self) -> str:
        """Wait for its end; the standard error of the command."""
        self.wait()
        return self.site.call(self.log("stderr.txt"))

    def cancel(self) -> None:
        """Cancel it, unless it has ended."""
        self.site.call(self.site.api.action("container_requests", self.uuid, "cancel"))

    def why(self) -> Record:
        """The reused container with the reason, or the reasons why it waits, as `lading request why
        --json`.
        """
        found: Record = self.site.call(
            self.site.api.action("container_requests", self.uuid, "why", method="GET")
        )
        return found

    def __await__(self) -> Generator[Any, None, Self]:
        """Wait in any event loop, as `result`."""
        return self._wait().__await__()

    async def _wait(self) -> Self:
        self.site.watch(self)
        outcome = await follow(self.ended)
        if outcome.exit_code:
            raise await asyncio.to_thread(self._failure, outcome)
        return self

    def __repr__(self) -> str:
        return f"<run {self.name or ''} {self.state}>"

    def to_html(self) -> str:
        """A table of one row; notebooks show it."""
        return _table([self])

    def _repr_html_(self) -> str:
        return self.to_html()

    # It reads the log by the loop of the site and waits: coroutines call it in a thread.
    def _failure(self, outcome: RequestOutcome) -> RunFailed:
        lines = self.site.call(self.log("stderr.txt")).splitlines()[-_LAST_LINES:]
        told = "".join(f"\n  {plain_line(line)}" for line in lines)
        return RunFailed(
            f"{self.name or self.uuid}: {outcome.fault}{told}",
            self,
            exit_code=outcome.exit_code,
            log="\n".join(lines),
        )

    # Calls of the event loop of the site.

    def accept(self, uuid: str) -> None:
        """The server has created the request."""
        self.placed.set_result(uuid)

    def refuse(self, error: BaseException) -> None:
        """The request was not created."""
        for future in (self.queued, self.placed, self.ended):
            if not future.done():
                future.set_exception(error)

    def end(self, outcome: RequestOutcome) -> None:
        """The request is Final."""
        if not self.ended.done():
            self.ended.set_result(outcome)

    async def log(self, name: str) -> str:
        """The text of a file of its log, "" if there is none."""
        container = (await follow(self.ended)).container
        if container is None:
            return ""
        request = self.uuid
        try:
            # The container of the outcome, which is the last attempt.
            path = f"container_requests/{request}/log/{container['uuid']}/{name}"
            return await self.site.text(path)
        except NotFound:
            return ""

    async def tree(self, *, of_failed: bool = False) -> FileTree:
        """The files of its output. Raises RunFailed, unless those `of_failed` are wanted."""
        outcome = await follow(self.ended)
        if outcome.exit_code and not of_failed:
            raise await asyncio.to_thread(self._failure, outcome)
        if outcome.container is None or not outcome.container["output"]:
            return FileTree()
        record = await self.site.api.get("collections", outcome.container["output"])
        return filetree.from_manifest(record["manifest_text"])

    async def paths_below(self, path: str, *, of_failed: bool = False) -> list[str]:
        """The paths of the files below a directory of its output. Raises NotFound."""
        tree = filetree.subtree(await self.tree(of_failed=of_failed), path)
        return sorted(name for name, _ in filetree.files(tree))

    async def read(self, path: str, *, of_failed: bool = False, most: int | None = None) -> bytes:
        """The content of a file of its output, of at most `most` bytes. Raises NotFound, TooLarge,
        Invalid for a directory.
        """
        node = filetree.get(await self.tree(of_failed=of_failed), path)
        if not isinstance(node, File):
            raise Invalid(f"{path or 'output'}: is a directory; name a file in it")
        if most is not None and node.size > most:
            raise TooLarge(
                f"{path}: has {node.size} bytes, of which at most {most} are read as a value; "
                "write a file and return its path"
            )
        async with aclosing(read_file(self.site.blocks, node)) as pieces:
            return b"".join([piece async for piece in pieces])

    async def save(self, path: str, place: Path, *, of_failed: bool = False) -> None:
        """Write the files below a directory of its output to disk."""
        tree = filetree.subtree(await self.tree(of_failed=of_failed), path)
        await download(self.site.blocks, tree, place)


class RunFuture(concurrent.futures.Future[_Value]):
    """The result of a run, as a future of `concurrent.futures`; `run` is the run.

    It is never `running`: it can be cancelled until it is done.
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        # Re-entrant: callbacks of the future are called while it is held.
        self._deciding = threading.RLock()

    def cancel(self) -> bool:
        """Cancel the run, unless it has ended; whether it was cancelled. Raises the errors of the
        API.
        """
        # The future first: its waiters go on, while the cancellation needs a call of the API.
        if self._abandon() and not self.run.ended.done():
            self.run.cancel()
        return self.cancelled()

    async def settle(self, work: Coroutine[Any, Any, _Value]) -> None:
        """Take the result of `work`, or its error; runs in the loop of the site."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            self._abandon()
            raise
        # In another thread: callbacks may call the site, and wait.
        await asyncio.to_thread(self._take, task)

    def _take(self, task: asyncio.Future[_Value]) -> None:
        error = task.exception()
        with self._deciding:
            if self.done():
                return
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(task.result())

    def _abandon(self) -> bool:
        """Whether it has become cancelled by this call."""
        with self._deciding:
            if self.done():
                return False
            super().cancel()
            # This wakes `as_completed` and `wait`.
            self.set_running_or_notify_cancel()
            return True


class Runs(list[Run]):
    """Runs that belong together. Notebooks show them as a table."""

    def wait(self, timeout: float | None = None) -> Self:
        """Wait until all have ended, well or not; themselves. Raises TimeoutError after `timeout`
        seconds.
        """
        for run in self:
            self._site().watch(run)
        # All are watched before the first is waited for, so that one list of the API finds the ends
        # of many.
        ended = [run.ended for run in self]
        if concurrent.futures.wait(ended, timeout).not_done:
            raise TimeoutError(f"{self!r}: some have not ended after {timeout} s")
        return self

    def result(self, timeout: float | None = None) -> Self:
        """Wait until all have ended; themselves. Raises RunFailed for the first that failed,
        TimeoutError.
        """
        self.wait(timeout)
        for run in self:
            run.result()
        return self

    @property
    def failed(self) -> Runs:
        """The runs that are known to have failed, or were refused. Does not wait."""
        return Runs(run for run in self if run.ended.done() and run.state != "succeeded")

    def cancel(self) -> None:
        """Cancel the runs that have not ended."""
        for run in self:
            if not run.done():
                run.cancel()

    def __await__(self) -> Generator[Any, None, Self]:
        """Wait in any event loop, as `result`."""
        return self._wait().__await__()

    async def _wait(self) -> Self:
        for run in self:
            await run
        return self

    def _site(self) -> RunSite:
        return self[0].site

    def __repr__(self) -> str:
        return f"<{len(self)} runs: {_summary(self)}>"

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """An HTML table of the first runs, failed ones first; notebooks show it."""
        shown = sorted(self, key=lambda run: not run.state.startswith(("failed", "refused")))
        rest = len(self) - _SHOWN
        more = f"<p>and {rest} more</p>" if rest > 0 else ""
        heading = html.escape(f"{len(self)} runs: {_summary(self)}")
        return f"<div><p>{heading}</p>{_table(shown[:_SHOWN])}{more}</div>"


def plain_line(line: str) -> str:
    """A line that a container wrote, with control characters spelt out: a message with it is shown
    on terminals.
    """
    return "".join(
        character
        if character.isprintable() or character == "\t"
        else character.encode("unicode_escape").decode()
        for character in line
    )


def _summary(runs: Iterable[Run]) -> str:
    counts = Counter(run.state.partition(" ")[0] for run in runs)
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "none"


def _table(runs: Iterable[Run]) -> str:
    rows = "".join(_row(run) for run in runs)
    return f"<table><tr><th>name</th><th>state</th><th>request</th></tr>{rows}</table>"


def _row(run: Run) -> str:
    is_placed = run.placed.done() and run.placed.exception() is None
    cells = (run.name or "", run.state, run.placed.result() if is_placed else "")
    # Legible on the light and the dark pages of notebooks.
    style = ' style="color:#d32f2f"' if run.state.startswith(("failed", "refused")) else ""
    return f"<tr{style}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
