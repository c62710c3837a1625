"""The Python API: `lading.connect()` gives a `Site`, `Site.run` a `Run`.

    import lading

    with lading.connect() as site:
        sort = site.run(["sort", "/in/a.txt"], inputs={"/in/a.txt": "a.txt"}, stdout="sorted")
        count = site.run(["wc", "-l", "/in/sorted"], inputs={"/in": sort.output})
        print(count.result().stdout)

A run is submitted at once, and its inputs may be outputs of runs that have not ended: the server
starts it when they have. Runs that are submitted within some milliseconds are one call.

All calls block, except `Run.__await__`; an event loop in a thread of its own does the work, so the
API can be used in scripts, notebooks and other event loops alike.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import re
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, overload
from weakref import WeakSet

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.request_options import (
    Amount,
    Duration,
    Moment,
    request_attributes,
    secret_mounts,
)
from lading.client.run_ends import RunEnds
from lading.client.run_records.program import membership
from lading.client.run_submission import RunSubmitter
from lading.client.runs import Run, Runs, Source, check_inputs, check_runs
from lading.client.servers.environment import default_data_directory
from lading.client.servers.own_site import find_or_start, tell
from lading.client.transport import Transport
from lading.core import placeholders
from lading.core.errors import Invalid
from lading.process.concurrency import cancel_all

if TYPE_CHECKING:
    from lading.client.functions import RemoteFunction
    from lading.client.remote_files.tree import RemoteFiles

_Answer = TypeVar("_Answer")
_Parameters = ParamSpec("_Parameters")
# A timestamp of RFC 3339 in UTC with nanoseconds, as supervisors write it before each line.
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[0-9:.]{18}Z ")


class Site:
    """A server of Lading, with one token. Close it, or use it as a context."""

    def __init__(self, transport: AbstractAsyncContextManager[Transport], token: str) -> None:
        # A loop of its own in a thread: the program that uses this may have no loop, or one of its
        # own that must not wait.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="lading", daemon=True)
        self._thread.start()
        # Held to begin a call, and to close: no call may begin after the loop has ended its tasks.
        self._opening = threading.Lock()
        self._closing = threading.Lock()
        self._is_closed = False
        self._opened = AsyncExitStack()
        # Weak: a run that the program has dropped need not be watched.
        self._watched: WeakSet[Run] = WeakSet()
        self._submitting: set[asyncio.Task[None]] = set()
        self._watchers: set[asyncio.Task[None]] = set()
        self.api, self.blocks = self.call(self._open(transport, token))
        self._submitter = RunSubmitter(self.api, self.blocks)
        self._ends = RunEnds(self.api)
        self._files: RemoteFiles | None = None

    @property
    def files(self) -> RemoteFiles:
        """Its files as one tree, for `lading.Path`; the coroutines run by `call`."""
        from lading.client.remote_files.tree import RemoteFiles

        with self._opening:
            if self._files is None:
                self._files = RemoteFiles(self.api, self.blocks)
            return self._files

    def run(
        self,
        command: Sequence[str],
        *,
        inputs: Mapping[str, Source] | None = None,
        image: str | None = None,
        vcpus: Amount = 1,
        ram: Amount = 256 << 20,
        gpus: int | None = None,
        gpu_memory: int | str | None = None,
        gpu_type: str | Iterable[str] = (),
        cuda: str | float | None = None,
        tmp: str | Iterable[str] | Mapping[str, int | str] = (),
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str | Path] | None = None,
        name: str | None = None,
        stdout: str | None = None,
        strict_output: bool = False,
        network: bool = False,
        reuse: bool = True,
        priority: int = 500,
        project: str | None = None,
        after: Run | Iterable[Run] = (),
        max_run_time: Duration | None = None,
        output_ttl: Duration | None = None,
        start_after: Moment | None = None,
        expires: Moment | None = None,
        deadline: Moment | None = None,
        step: str | None = None,
        **attributes: Any,
    ) -> Run:
        """Submit a command, and return at once.

        The command starts in /out, and the files there become its output. `inputs`: what is mounted
        at each path. `image`: its name, hash or collection; by default the one that you added last.
        `ram`: a size as "1GiB", a range as "1GiB-4GiB", or bytes. `gpus`: a number of GPUs, each
        with `gpu_memory` as "16GiB", of a `gpu_type` as "8.0" or "ampere" and with a driver for
        `cuda` as "12.4"; 1 if only these are given. `tmp`: paths of empty directories
        that are not kept, or a size by each path. `secrets`: contents, as texts or files here, by
        the name of a variable or by a path there; no record shows them, so whoever runs the request
        again gives them again. `stdout`: a file of the output that takes the standard output.
        `strict_output`: fail if an entry of the output cannot be saved, as a link that leads
        nowhere. `reuse`: whether an earlier result may be used. `after`: runs that must have
        succeeded before. `max_run_time` and `output_ttl` are durations as "2h30m", or seconds;
        `start_after`, `expires` and `deadline` are moments as "18:00", "2h" from now, or a
        datetime. `step`: its step in a run (`lading.run`), by default `name` without its number.
        `attributes` are those of a container request.

        Raises Invalid for values that cannot be meant, before anything is sent.
        """
        body = request_attributes(
            command,
            now=datetime.now().astimezone(),
            vcpus=vcpus,
            ram=ram,
            tmp=tmp,
            stdout=stdout,
            network=network,
            gpu=(gpus, gpu_memory, gpu_type, cuda),
            durations={"max_run_time": max_run_time, "output_ttl": output_ttl},
            moments={"start_after": start_after, "expires": expires, "deadline": deadline},
            attributes={
                "state": "Committed",
                "container_image": image,
                "environment": env or {},
                "priority": priority,
                "use_existing": reuse,
                "strict_output": strict_output,
                "name": name,
                **({"owner_uuid": project} if project else {}),
                **secret_mounts(secrets or {}),
                **attributes,
            },
        )
        check_inputs(inputs or {})
        body |= membership(self, body, program=Path(command[0]).name, step=step)
        run = Run(self, name or Path(command[0]).name)
        work = self._submitter.submit(run, body, dict(inputs or {}), check_runs(after))
        self._start(work, self._submitting)
        return run

    def map(
        self,
        command: Sequence[str],
        items: Iterable[Any],
        *,
        inputs: Mapping[str, Source] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Runs:
        """Submit a command for each item, and return at once; `options` as for `run`.

        `{}` in words of the command, inputs and variables is the item; an input that is only `{}`
        may be an item of any kind, as a run. Names are `name.0`, `name.1`, ...
        """
        base = name or Path(command[0]).name
        filled = [
            fill(command, [item], inputs=inputs, name=f"{base}.{number}", **options)
            for number, item in enumerate(items)
        ]
        # Other options are the same for all: the first run refuses them before anything is sent.
        for arguments in filled:
            check_inputs(arguments["inputs"])
        return Runs(self.run(**arguments) for arguments in filled)

    @overload
    def function(
        self, function: Callable[_Parameters, _Answer], /
    ) -> RemoteFunction[_Parameters, _Answer]: ...

    @overload
    def function(
        self, /, **options: Any
    ) -> Callable[[Callable[_Parameters, _Answer]], RemoteFunction[_Parameters, _Answer]]: ...

    def function(self, function: Any = None, /, **options: Any) -> Any:
        """A decorator: calls of the function are container requests, and an equal call has its
        value already. `options`: `image` (one of the Python environment that runs this, by
        default), `python` (its interpreter in another image), `verbose` (write to standard error
        why a call has to be computed), and those of `run`.

        See `lading.client.functions.RemoteFunction`.
        """
        from lading.client.functions import RemoteFunction

        if function is None:
            return lambda decorated: RemoteFunction(self, decorated, **options)
        return RemoteFunction(self, function, **options)

    def request(self, uuid: str) -> Run:
        """The run with the uuid of its request, submitted by any program at any time. Raises
        NotFound.
        """
        record = self.call(self.api.get("container_requests", uuid))
        run = Run(self, record["name"], record)
        if record["state"] == "Final":
            # Its state is known then, without a wait by the program.
            run.wait()
        return run

    def put(self, path: str | Path) -> str:
        """Store a file or directory; its portable data hash."""
        return str(self.put_mount(path)["portable_data_hash"])

    def put_mount(self, path: str | Path) -> Record:
        """Store a file or directory; the mount that shows it."""
        return self.call(self._submitter.deposit(Path(path)))

    def call(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run a coroutine in the loop of the site, and wait for its result. Raises Invalid if the
        site is closed before the coroutine ends.
        """
        with self._opening:
            if self._is_closed:
                # A coroutine that is never run would be a warning at its end.
                work.close()
                raise _closed()
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result()
        except concurrent.futures.CancelledError:
            raise _closed() from None

    def watch(self, run: Run) -> None:
        """Have the end of a run noticed, from now on."""
        if not run.ended.done() and run not in self._watched and not self._is_closed:
            self._watched.add(run)
            self.follow(self._ends.expect(run))

    def follow(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the loop of the site until `close` cancels it. Does not wait."""
        self._start(work, self._watchers)

    def close(self) -> None:
        """Close the connections. Runs go on; `request` finds them again."""
        # A second thread waits until the first one has closed them.
        with self._closing:
            if self._is_closed:
                return
            self.call(self._finish())
            with self._opening:
                self._is_closed = True
                # Called from the thread of the program, while the loop belongs to its own.
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def text(self, path: str) -> str:
        """The text of a log file, without the timestamps of its lines. Raises NotFound."""
        response = await self.api.raw("GET", path)
        lines = response.body.decode("utf-8", "replace").splitlines(keepends=True)
        return "".join(_STAMP.sub("", line) for line in lines)

    def _run_loop(self) -> None:
        """Run the loop until `close`, then cancel the calls that other threads wait for, and close
        the connections.
        """
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())

    async def _end(self) -> None:
        await cancel_all(*(asyncio.all_tasks() - {asyncio.current_task()}))
        # Last: a call would open a connection again.
        await self._opened.aclose()

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

    async def _finish(self) -> None:
        # Submitted runs are sent; only the waiting ends.
        await asyncio.gather(*self._submitting, return_exceptions=True)
        for task in self._watchers:
            task.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)


def _closed() -> Invalid:
    return Invalid("the connection is closed; connect again with lading.connect()")


def connect(data: str | Path | None = None, *, start: bool = True) -> Site:
    """The server that ARVADOS_API_HOST and ARVADOS_API_TOKEN name, or your own site on this
    machine, which is started in the background if it does not run. Standard error tells of a start,
    `lading down` stops the site, and so does an idle time (`Local.IdleShutdown`).

    `data`: the data directory of the site, whatever the variables name. Without `start`, or with
    LADING_START=never, nothing is started. Raises Invalid when there is no server, Unavailable when
    the site does not start.
    """
    place = Path(data).absolute() if data is not None else default_data_directory(os.environ)
    is_chosen = data is not None
    server = find_or_start(os.environ, place, say=tell, may_start=start, is_chosen=is_chosen)
    return Site(server.transport(), server.token)


def fill(
    command: Sequence[str],
    items: Sequence[Any],
    *,
    inputs: Mapping[str, Source] | None = None,
    env: Mapping[str, str] | None = None,
    name: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The arguments of `Site.run` with its placeholders filled: `{}` is the first item; of several,
    `{0}`, `{1}`, ... are each. Other braces stay. In the script of a shell each item is one word
    (`core.placeholders`). Raises Invalid for an item that would be read as code.
    """
    values = {str(number): item for number, item in enumerate(items) if len(items) > 1}
    values[""] = items[0]
    texts = {key: str(value) for key, value in values.items()}

    def text(word: str) -> str:
        return placeholders.fill(word, texts)

    def source(given_source: Source) -> Source:
        if not isinstance(given_source, str):
            return given_source
        placeholder = re.fullmatch(r"\{(\d*)\}", given_source)
        return (
            values[placeholder[1]]
            if placeholder and placeholder[1] in values
            else text(given_source)
        )

    return {
        "command": [*placeholders.fill_command(command, texts)],
        "inputs": {target: source(value) for target, value in (inputs or {}).items()},
        "env": {key: text(value) for key, value in (env or {}).items()},
        "name": text(name) if name else None,
        **options,
    }
