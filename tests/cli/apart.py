"""Commands in a process of their own, on a site: what they cost."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from tests.cli.site import Site

_PROGRAM = """
import json, sys, time
from contextlib import asynccontextmanager
from lading.cli.main import cli
from lading.cli.session import CliSession
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.transport import HttpTransport

socket, token, *arguments = sys.argv[1:]
calls = 0

class Counting(HttpTransport):
    async def request(self, *places, **names):
        global calls
        calls += 1
        return await super().request(*places, **names)

@asynccontextmanager
async def connect():
    async with Counting(unix_socket=socket) as transport:
        yield CliSession(api=ApiClient(transport, token), blocks=BlockClient(transport, token))

began = time.monotonic()
try:
    cli.main(arguments, obj=connect)
except SystemExit as left:
    if left.code:
        raise
wall, processor = time.monotonic() - began, time.process_time()
status = open("/proc/self/status").read()
peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
sys.stderr.write("\\n" + json.dumps({
    "calls": calls, "wall": wall, "processor": processor, "peak": peak}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a command printed, its calls of the API and of the block store, seconds, bytes."""

    stdout: str
    calls: int
    wall: float
    processor: float
    peak: int


def run_apart(site: Site, *arguments: str) -> Cost:
    """Run a command of the command line to its good end."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(site.socket), site.world.admin, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stderr.splitlines()[-1])
    return Cost(stdout=done.stdout, **told)
