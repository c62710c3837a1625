"""Credentials of one gang with the parts of another: forged joins at a rank launcher, impostors of
ranks, their heartbeats, the daemons' words, and tokens at the API.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from lading.core.errors import LadingError
from lading.hpc.daemon_client import DaemonClient
from lading.hpc.plan import Identity, make_identity
from lading.net.certificates import load_identity, make_certificate
from lading.supervisor.gang import rank_launcher
from lading.supervisor.gang.rank_launcher import LaunchOrder, RankLauncher
from lading.supervisor.gang.remote_rank_client import HandshakeState
from lading.testing.supervising import CONTAINER
from tests.hpc_daemon import Rig
from tests.security.serving import Site, serving, trap

NOW = datetime.now(UTC)
OURS, THEIRS = (make_certificate("gang", now=NOW) for _ in range(2))
ANNEX = ("sh", "-c", 'echo "hello $0"; cat')
NONE: Final = ("", "")


@asynccontextmanager
async def launcher(ranks: int = 1) -> AsyncIterator[int]:
    """A rank launcher of a gang; its port."""
    with rank_launcher.listen() as listener:
        order = LaunchOrder(CONTAINER, ranks, *OURS)
        task = asyncio.create_task(RankLauncher(order, listener, command=ANNEX).serve())
        try:
            yield listener.getsockname()[1]
        finally:
            task.cancel()
            await asyncio.wait((task,))


async def join(port: int, identity: tuple[str, str], tune: Callable[[Any], None]) -> bytes:
    """What a rank launcher says to somebody with this certificate and key; "" for a refusal."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if identity != NONE:
        load_identity(context, *identity)
    tune(context)
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            try:
                writer.write(b"{}\n")
                return await reader.readline()
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return b""


def _version(version: ssl.TLSVersion) -> Callable[[Any], None]:
    def tune(context: Any) -> None:
        context.minimum_version = context.maximum_version = version

    return tune


TUNES: Final[list[Callable[[Any], None]]] = [
    lambda _: None,
    _version(ssl.TLSVersion.TLSv1_2),
    _version(ssl.TLSVersion.TLSv1_3),
    lambda context: context.set_ciphers("ALL:@SECLEVEL=0"),
    lambda context: context.set_alpn_protocols(["h2", "gang"]),
]
PLAIN = [
    b"", b"{}\n", b"\x16\x03\x01", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"SSH-2.0-x\r\n",
    OURS[0].encode(), b"\x00" * 4096, b'{"rank": 0, "wire": 1}\n', b"\x16\x03\x03\xff\xff" * 100,
    b"\x80\x2e\x01\x03\x01",
]  # fmt: skip


@pytest.mark.attack("joins another gang with certificates, keys and bytes of all kinds")
async def test_forged_joins() -> None:
    names = ("gang", "GANG", "container_0", "localhost", "*", CONTAINER)
    others = [THEIRS, NONE, *(make_certificate(name, now=NOW) for name in names)]
    async with launcher() as port:
        for identity, tune in itertools.product(others, TUNES):
            assert await join(port, identity, tune) == b"", identity[0][:60]
        for data in PLAIN * 8:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            with contextlib.suppress(OSError):
                await writer.drain()
            writer.transport.abort()
        # Its own supervisor is heard, as before.
        assert await join(port, OURS, TUNES[0]) == b"hello 127.0.0.1\n"


@pytest.mark.attack("keeps more idle connections to a rank launcher open than it may open files")
async def test_idle_strangers_of_a_launcher() -> None:
    async with launcher() as port:
        before, opened = len(list(Path("/proc/self/fd").iterdir())), []
        for _ in range(300):
            opened.append((await asyncio.open_connection("127.0.0.1", port))[1])
        # Both ends are in this process: all of here, and those that the launcher keeps.
        await asyncio.sleep(0.2)
        assert len(list(Path("/proc/self/fd").iterdir())) < before + 300 + 100
        assert await join(port, OURS, TUNES[0]) == b"hello 127.0.0.1\n"
        for writer in opened:
            writer.transport.abort()


@pytest.fixture
def certificate_of_others(tmp_path: Path) -> tuple[Path, Path]:
    files = tmp_path / "theirs.crt", tmp_path / "theirs.key"
    for file, text in zip(files, THEIRS, strict=True):
        file.write_text(text)
    return files


@pytest.mark.attack("takes the place of a rank launcher to be told the order of a rank")
async def test_an_impostor_of_a_launcher_hears_nothing(
    certificate_of_others: tuple[Path, Path],
) -> None:
    async with trap(*certificate_of_others) as (port, heard):
        course = HandshakeState(address="127.0.0.1", port=port, certificate=OURS[0], key=OURS[1])
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "lading.supervisor", "--line", stdin=pipe, stdout=pipe
        )
        said, _ = await process.communicate(
            msgspec.json.encode(course) + b"\n" + b'{"token": "secret"}\n'
        )
        assert b"fault" in said
        assert heard == b""


@pytest.mark.attack("answers as a rank of another gang, and tells that it lives and has ended well")
async def test_a_forged_heartbeat(certificate_of_others: tuple[Path, Path]) -> None:
    right = make_identity("container_0", now=NOW)
    async with trap(*certificate_of_others) as (port, heard):
        client = DaemonClient("127.0.0.1", right, port)
        for path in ("/v1/heartbeat", "/v1/query", "/v1/logs/stdout", "/v1/openapi.json") * 5:
            with pytest.raises(LadingError):
                await client.ask(path)
        for word in ("start", "kill", "upload"):
            with pytest.raises(LadingError):
                await client.command(word)
        client.close()
        assert right.authorization.encode() not in heard
        assert heard == b""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    made.up()
    try:
        yield made
    finally:
        made.down()


@pytest.mark.attack("calls the daemon of a rank with the words and keys of another gang")
def test_words_of_another_gang(rig: Rig) -> None:
    other: Identity = make_identity("localhost", now=NOW)
    paths = list(json.loads(rig.call("GET", "/v1/openapi.json").body)["paths"])
    assert len(paths) >= 6
    words = [other.authorization, f"Bearer {other.authorization}", other.certificate.split("\n")[1],
             f"{other.authorization}{rig.identity.authorization}", "", CONTAINER]  # fmt: skip
    for method, path, word in itertools.product(("GET", "POST", "PUT"), paths, words):
        answer = rig.call(method, path, b"{}", {"Authorization": word})
        assert answer.status == 401, (method, path)
        assert rig.identity.authorization not in str(answer)
    assert rig.query()["codeStatus"] == "Waiting"


CALLS: Final = [
    *(("GET", f"containers/{{container}}{rest}", None) for rest in
      ("", "/auth", "/secret_mounts", "/git_tree", "/log", "/progress", "/decisions")),
    *(("GET", f"container_requests/{{request}}{rest}", None) for rest in
      ("", "/log", "/log/{container}/", "/log/{container}/stdout.txt", "/why", "/evidence")),
    *(("PUT", "containers/{container}", changes) for changes in (
        {"state": "Running"}, {"state": "Complete", "exit_code": 0}, {"state": "Cancelled"},
        {"state": "Locked"}, {"state": "Queued"}, {"output": "d41d8cd98f00b204e9800998ecf8427e+0"},
        {"log": "d41d8cd98f00b204e9800998ecf8427e+0"}, {"progress": 1.0}, {"priority": 0},
        {"runtime_status": {"error": "forged"}}, {"gateway_address": "127.0.0.1:1"},
        {"cost": 5.0}, {"scheduling_parameters": {"nodes": 9}}, {"exit_code": 3},
        {"interactive_session_started": True}, {"output_properties": {"a": "b"}})),
    *(("PUT", "container_requests/{request}", changes) for changes in (
        {"priority": 0}, {"name": "forged"}, {"state": "Final"},
        {"scheduling_parameters": {"nodes": 1}}, {"container_count_max": 9})),
    *(("POST", f"containers/{{container}}/{action}", {}) for action in
      ("lock", "unlock", "ssh", "gateway_tunnel", "update_priority", "cancel")),
    *(("POST", f"container_requests/{{request}}/{action}", {}) for action in ("cancel", "rerun")),
    *(("POST", "logs", {"object_uuid": f"{{{name}}}", "event_type": kind, "properties":
                        {"text": "forged"}}) for name in ("container", "request")
      for kind in ("stderr", "dispatch", "crunch-run", "cancel", "hpc", "note")),
    *(("POST", f"containers/{{container}}/log/{name}.txt", {}) for name in ("stdout", "stderr")),
    ("DELETE", "container_requests/{request}", None),
]  # fmt: skip


@pytest.mark.system
@pytest.mark.attack("calls the API about another gang as user, as supervisor and as container")
async def test_tokens_of_another_gang(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", Containers={"Dispatcher": "none"}) as site:
        tokens, records = {}, {}
        for name in ("alice", "mallory"):
            tokens[name] = await site.user(name)
            records[name] = await site.request(
                tokens[name], command=["ring", name], name="gang of alice",
                scheduling_parameters={"nodes": 2},
                runtime_constraints={"vcpus": 1, "ram": 1 << 26, "API": True},
            )  # fmt: skip
            uuid = records[name]["container_uuid"]
            tokens[f"supervisor of {name}"] = await site.lock(uuid)
            assert (await _run(site, uuid, tokens[f"supervisor of {name}"])) == 200
        own = await site.call(
            "GET", f"/arvados/v1/containers/{records['mallory']['container_uuid']}/auth",
            token=tokens["supervisor of mallory"],
        )  # fmt: skip
        found = json.loads(own.text)
        callers = {
            "user": tokens["mallory"],
            "supervisor": tokens["supervisor of mallory"],
            "container": f"v2/{found['uuid']}/{found['api_token']}"
            f"/{records['mallory']['container_uuid']}",
            "nobody": "",
        }
        await _attack(site, callers, records["alice"])


async def _run(site: Site, uuid: str, token: str) -> int:
    return (await site.write(uuid, token, state="Running")).status


async def _attack(site: Site, callers: dict[str, str], victim: dict[str, Any]) -> None:
    names = {"container": victim["container_uuid"], "request": victim["uuid"]}

    async def state() -> list[Any]:
        kept = [await site.admin.get("containers", names["container"]),
                await site.admin.get("container_requests", names["request"])]  # fmt: skip
        rows = await site.admin.list("logs", filters=[["object_uuid", "in", [*names.values()]]])
        return [kept, len(rows)]

    before, tries = await state(), 0
    for (method, path, document), (name, token) in itertools.product(CALLS, callers.items()):
        for key, uuid in names.items():
            path = path.replace(f"{{{key}}}", uuid)
        body = json.loads(json.dumps(document).replace("{container}", names["container"])
                          .replace("{request}", names["request"]))  # fmt: skip
        reply = await site.call(method, f"/arvados/v1/{path}", token=token, json=body)
        tries += 1
        assert reply.status >= 400, (name, method, path, body, reply.text)
        assert "gang of alice" not in reply.text
    assert tries >= 200
    assert await state() == before
