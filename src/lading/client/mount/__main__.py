"""`python -m lading.client.mount`: one mount in this process.

Its settings come as a line of `net.rpc` on standard input. One line goes to standard output:
{"mounted": true}, or {"error": "one line"}; at the end another one, with {"statistics": {...}}.
TERM and INT end the mount, and so do an unmount by anybody and, with `tied`, the end of standard
input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

from lading.client.mount.service import MountSettings, mounted, open_transport
from lading.core.errors import LadingError
from lading.net import rpc


def main() -> int:
    """Exit code 0 when the mount ended as it should, 1 when it could not be made."""
    settings = rpc.read_line(0, MountSettings)
    if settings is None:
        return 1
    if settings.namespace >= 0:
        enter_namespace(settings.namespace)
    make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    # Of the extra `server`: the mount of a client is slower without it.
    with contextlib.suppress(ModuleNotFoundError):
        import uvloop

        make_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(_serve(settings))


def enter_namespace(descriptor: int) -> None:
    """Enter the mount namespace of a descriptor; this process must have one thread. Raises
    OSError.
    """
    import ctypes

    # CLONE_NEWNS: only a descriptor of a mount namespace is accepted.
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x20000):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "setns")
    os.close(descriptor)


async def _serve(settings: MountSettings) -> int:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    transport = open_transport(settings)
    try:
        async with mounted(settings, transport) as mount:
            _say({"mounted": True})
            waits = [stop.wait(), mount.ended.wait(), *([_end_of_input()] if settings.tied else [])]
            tasks = [asyncio.create_task(wait) for wait in waits]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        _say({"statistics": mount.statistics()})
    except LadingError as error:
        _say({"error": error.message})
        return 1
    finally:
        await transport.close()
    return 0


async def _end_of_input() -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    descriptor = sys.stdin.fileno()

    def look() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            ended.set()

    loop.add_reader(descriptor, look)
    await ended.wait()


def _say(message: dict[str, object]) -> None:
    # The parent may be gone; the mount ends all the same.
    with contextlib.suppress(BrokenPipeError):
        rpc.write_line(1, message)


if __name__ == "__main__":
    from lading.process import telemetry

    telemetry.configure()
    code = main()
    # Threads of libfuse may be in a call if the mount was in use; os._exit does not wait for them.
    os._exit(code)
