"""The other end of a conductor's pipe; a whole gang of several machines is in tests/system."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from lading.hpc.remote_ranks import own_address
from tests.reality import need_ipv6

_SERVE = """
import asyncio, sys
from dataclasses import replace
from lading.core.errors import ExecutionError
from lading.hpc import network, remote_ranks
from lading.hpc.ranks import NativeGround
from tests.hpc.test_plan import PLAN

async def nothing(*_, **__):
    pass

async def start(self, number, identity, environment):
    if environment.get("A") == "bad":
        raise ExecutionError("no such rank")
    print(number, identity.authorization, environment, file=sys.stderr)

network.make_bridge = network.tell_peers = nothing
NativeGround.start = start
wire = network.Wire("lw1", 4000)
serving = remote_ranks.serve(PLAN, wire, rank=2, leader="10.0.0.1", address="10.0.0.3")
sys.exit(asyncio.run(serving))
"""
_ROOT = Path(__file__).parents[2]
IDENTITY = {"certificate": "C", "key": "K", "authorization": "word"}


def _serve(*lines: object) -> tuple[list[object], str]:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(
        [sys.executable, "-c", _SERVE],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_a_rank_is_started_as_it_is_told_and_ends_with_the_pipe() -> None:
    said, started = _serve({"peers": [], "identity": IDENTITY, "environment": {"A": "b"}})
    assert said == [{"port": 4000, "address": "10.0.0.3", "leader": "10.0.0.1"}, {"started": True}]
    assert started == "2 word {'A': 'b'}\n"


def test_who_is_told_nothing_starts_nothing() -> None:
    said, started = _serve()
    assert (len(said), started) == (1, "")


def test_a_fault_is_told() -> None:
    said, _ = _serve({"peers": [], "identity": IDENTITY, "environment": {"A": "bad"}})
    assert said[1:] == [{"fault": "no such rank"}]


def test_one_s_own_address_is_that_towards_the_other() -> None:
    assert own_address("127.0.0.1") == "127.0.0.1"
    need_ipv6()
    assert own_address("::1") == "::1"
