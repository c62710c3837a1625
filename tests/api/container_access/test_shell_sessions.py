"""Sessions through the whole API, with a real gateway behind: who gets in, and what is written
down.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from lading.api.http import TAKE_OVER
from lading.core.containers import sessions
from lading.core.containers.container import Container
from lading.net.http_upgrade import LIMIT
from lading.net.pipes import Pipe
from lading.net.tunnel import Tunnel
from lading.testing.world import World, world
from tests.supervisor.container_gateway.entering import gateway_of, stub_running

PATIENCE = 180.0


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


class Caller:
    """A connection to the application that may be taken over."""

    def __init__(self) -> None:
        self.status = 0
        self.head = b""
        self.body = b""
        self.pipe: Pipe | None = None
        self.taken = asyncio.Event()

    async def call(
        self,
        it: World,
        path: str,
        form: Mapping[str, str],
        *,
        token: str,
        upgrade: str = "ssh",
        method: str = "POST",
    ) -> Caller:
        """Make the call; it returns when the connection has ended, or the answer was given."""

        async def take_over(head: bytes) -> Pipe:
            self.head = head
            self.status = int(head.split(b" ")[1])
            ours, theirs = socket.socketpair()
            self.pipe = Pipe(*await asyncio.open_connection(sock=ours, limit=LIMIT))
            self.taken.set()
            return Pipe(*await asyncio.open_connection(sock=theirs, limit=LIMIT))

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": urlencode(form).encode(), "more_body": False}

        async def send(message: Any) -> None:
            self.status = message.get("status", self.status)
            self.body += message.get("body", b"")

        headers = {
            "authorization": f"Bearer {token}", "content-type": "application/x-www-form-urlencoded",
            "upgrade": upgrade,
        }  # fmt: skip
        scope = {
            "type": "http", "method": method, "path": f"/arvados/v1/{path}", "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1), "extensions": {TAKE_OVER: take_over},
        }  # fmt: skip
        await it.app(scope, receive, send)
        return self


async def call(
    it: World, path: str, form: Mapping[str, str] | None = None, **more: Any
) -> tuple[int, str]:
    """Status and text of a call that is refused or only probes."""
    done = await Caller().call(it, path, form or {}, **{"token": it.admin, **more})
    return done.status, done.body.decode()


async def running(it: World, address: str, *, token: str | None = None) -> tuple[str, str, str]:
    """A request whose container runs, and whose gateway is there: the uuids of both, the
    supervisor's token.
    """
    request = await it.submit(token=token, use_existing=False)
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    changes = {"state": "Running", "gateway_address": address}
    await it.ok("PUT", f"containers/{uuid}", changes, token=supervisor)
    return request["uuid"], uuid, supervisor


@asynccontextmanager
async def entered(
    it: World, tmp_path: Path, *, token: str | None = None, root: str = ""
) -> AsyncIterator[Any]:
    """A running container with a real gateway; `root` is the root token that the gateway's key is
    made of.
    """
    request = await it.submit(token=token, use_existing=False)
    uuid = request["container_uuid"]
    key = sessions.container_key(root or it.config.SystemRootToken, uuid)
    async with stub_running(tmp_path) as engine, gateway_of(engine, uuid=uuid, key=key) as gateway:
        supervisor = await it.lock(uuid)
        address = f"127.0.0.1:{gateway.port}"
        await it.ok(
            "PUT",
            f"containers/{uuid}",
            {"state": "Running", "gateway_address": address},
            token=supervisor,
        )
        yield request["uuid"], uuid, gateway, supervisor


async def rows(it: World, uuid: str, kind: str) -> list[dict[str, Any]]:
    filters = [["object_uuid", "=", uuid], ["event_type", "=", kind]]
    found: list[dict[str, Any]] = (await it.ok("GET", "logs", params={"filters": filters}))["items"]
    return found


@pytest.mark.parametrize("prefix", ["connect", "containers"])
async def test_a_session_is_passed_on_and_written_down(
    it: World, tmp_path: Path, prefix: str
) -> None:
    async with entered(it, tmp_path) as (request, uuid, _, _):
        caller = Caller()
        target = request if prefix == "connect" else uuid
        form = {"login_username": "nobody"} if prefix == "connect" else {}
        session = asyncio.create_task(
            caller.call(it, f"{prefix}/{target}/ssh", form, token=it.admin)
        )
        await asyncio.wait_for(caller.taken.wait(), PATIENCE)
        assert caller.pipe is not None
        assert (await caller.pipe.reader.readuntil(b"\n")).startswith(b"SSH-2.0")
        assert b"upgrade: ssh" in caller.head.lower()
        assert (await it.ok("GET", f"containers/{uuid}"))["interactive_session_started"] is True
        (begun,) = await rows(it, uuid, "shell")
        # Without a form it is ssh that names the user.
        assert begun["properties"].get("login_username") == form.get("login_username")
        assert begun["properties"]["user_uuid"].endswith("a" * 15)
        await caller.pipe.close()
        await asyncio.wait_for(session, PATIENCE)
        (ended,) = await rows(it, uuid, "shell_end")
        assert ended["properties"]["seconds"] >= 0
        assert ended["properties"]["bytes"] > 0
        assert it.admin not in str([begun, ended])


@pytest.mark.parametrize("allowed", [False, True])
async def test_what_somebody_was_inside_of_is_reused_only_where_that_is_wanted(
    tmp_path: Path, allowed: bool
) -> None:
    given = {"ShellAccess": {"ReuseAfterShell": allowed}}
    async with world(tmp_path, Containers=given) as it, entered(it, tmp_path) as (_, uuid, _, _):
        assert (await it.submit())["container_uuid"] == uuid
        caller = Caller()
        session = asyncio.create_task(caller.call(it, f"connect/{uuid}/ssh", {}, token=it.admin))
        await asyncio.wait_for(caller.taken.wait(), PATIENCE)
        assert ((await it.submit())["container_uuid"] == uuid) is allowed
        assert caller.pipe is not None
        await caller.pipe.close()
        await asyncio.wait_for(session, PATIENCE)


async def test_a_probe_opens_nothing(it: World, tmp_path: Path) -> None:
    async with entered(it, tmp_path) as (_, uuid, gateway, _):
        assert await call(it, f"connect/{uuid}/ssh", {"probe": "true"}, upgrade="") == (
            200,
            f'{{"uuid":"{uuid}"}}',
        )
        assert gateway.said == []
        assert (await it.ok("GET", f"containers/{uuid}"))["interactive_session_started"] is False


async def test_states_and_forms(it: World) -> None:
    request = await it.submit(use_existing=False)
    uuid = request["container_uuid"]
    path = f"connect/{uuid}/ssh"
    assert (await call(it, path))[0] == 503
    assert (await call(it, path, method="GET"))[0] == 410
    assert (await call(it, path, upgrade="x"))[0] == 422
    assert (await call(it, "connect/zzzzz-dz642-000000000000000/ssh"))[0] == 404
    assert (await it.request("POST", path, headers={"upgrade": "ssh"})).status == 503
    await it.run(uuid)
    status, text = await call(it, path)
    assert (status, "has ended" in text) == (410, True)
    draft = await it.ok("POST", "container_requests", await it.spec(state="Uncommitted"))
    assert (await call(it, f"connect/{draft['uuid']}/ssh"))[0] == 503


async def test_a_user_without_permission(it: World, tmp_path: Path) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    async with entered(it, tmp_path, token=alice) as (request, uuid, gateway, _):
        probe = {"probe": "true"}
        assert (await call(it, f"connect/{uuid}/ssh", probe, token=alice))[0] == 200
        assert (await call(it, f"connect/{uuid}/ssh", probe, token=bob))[0] == 404
        link = {"tail_uuid": (await it.ok("GET", "users/current", token=bob))["uuid"],
                "head_uuid": request, "link_class": "permission", "name": "can_manage"}  # fmt: skip
        await it.ok("POST", "links", link)
        status, text = await call(it, f"connect/{uuid}/ssh", token=bob)
        assert (status, "is not yours" in text) == (403, True)
        assert (await call(it, f"connect/{uuid}/ssh", token="v2/zzzzz-gj3su-000000000000000/x"))[
            0
        ] == 401
        assert gateway.said == []


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    off: Any = {"ShellAccess": {"Admin": False, "User": False}}
    async with (
        world(tmp_path, Containers=off) as it,
        entered(it, tmp_path) as (_, uuid, gateway, _),
    ):
        status, text = await call(it, f"connect/{uuid}/ssh")
        assert (status, "switched off" in text) == (503, True)
        assert gateway.said == []


async def test_a_gateway_with_another_secret_is_not_believed(it: World, tmp_path: Path) -> None:
    """Whoever listens at the address without knowing the key gets nothing but a proof that opens
    nothing.
    """
    async with entered(it, tmp_path, root="another root token") as (_, uuid, gateway, _):
        status, text = await call(it, f"connect/{uuid}/ssh")
        assert (status, "is not that of this container" in text) == (503, True)
        assert gateway.said == []
        assert await rows(it, uuid, "shell") == []


async def test_the_gateway_of_another_container_is_not_believed(it: World, tmp_path: Path) -> None:
    async with entered(it, tmp_path) as (_, _, gateway, _):
        _, other, _ = await running(it, f"127.0.0.1:{gateway.port}")
        assert (await call(it, f"connect/{other}/ssh"))[0] == 503
        assert gateway.said == []


async def test_nobody_answers(it: World) -> None:
    it.app.services.access.tunnels.patience = 0.01
    for address in ("127.0.0.1:1024", "", "tunnel"):
        _, uuid, _ = await running(it, address)
        assert (await call(it, f"connect/{uuid}/ssh"))[0] == 503
    _, uuid, _ = await running(it, "tunnel")
    await noted_by_another_server(it, uuid, "tunnel https://127.0.0.1:1/")
    assert (await call(it, f"connect/{uuid}/ssh"))[0] == 503
    assert (await call(it, f"connect/{uuid}/ssh", {"no_forward": "true"}))[0] == 503


async def noted_by_another_server(it: World, uuid: str, address: str) -> None:
    """Another server of this installation has written down that it has the tunnel."""
    async with it.database.writing() as tx:
        await tx.execute(
            "UPDATE containers SET gateway_address = ? WHERE uuid = ?", (address, uuid)
        )


async def test_a_session_through_a_tunnel(it: World, tmp_path: Path) -> None:
    async with entered(it, tmp_path) as (_, uuid, gateway, supervisor):
        key = sessions.container_key(it.config.SystemRootToken, uuid)
        caller, path = Caller(), f"containers/{uuid}/gateway_tunnel"
        form = {"auth_secret": key}
        serving = asyncio.create_task(
            caller.call(it, path, form, token=supervisor, upgrade="tunnel")
        )
        await asyncio.wait_for(caller.taken.wait(), PATIENCE)
        assert b"X-Arvados-Internal-Url: https://127.0.0.1:9440/" in caller.head
        assert caller.pipe is not None

        async def accept() -> Pipe:
            return Pipe(*await asyncio.open_connection("127.0.0.1", gateway.port, limit=LIMIT))

        far = Tunnel(caller.pipe, connected=True, accept=accept)
        running_far = asyncio.create_task(far.run())
        noted = {"gateway_address": "tunnel https://127.0.0.1:9440/"}
        async with it.database.reading() as tx:
            found = await tx.fetch("SELECT gateway_address FROM containers WHERE uuid = ?", (uuid,))
        assert found[0][0] == noted["gateway_address"]
        await it.ok("PUT", f"containers/{uuid}", noted, token=supervisor)
        user = Caller()
        session = asyncio.create_task(user.call(it, f"connect/{uuid}/ssh", {}, token=it.admin))
        await asyncio.wait_for(user.taken.wait(), PATIENCE)
        assert user.pipe is not None
        assert (await user.pipe.reader.readuntil(b"\n")).startswith(b"SSH-2.0")
        await user.pipe.close()
        await asyncio.wait_for(session, PATIENCE)
        await far.close()
        await asyncio.wait_for(asyncio.gather(serving, running_far), PATIENCE)


async def test_only_the_supervisor_with_the_key_may_bring_a_tunnel(it: World) -> None:
    _, uuid, supervisor = await running(it, "tunnel")
    _, other, of_other = await running(it, "tunnel")
    path, key = (
        f"containers/{uuid}/gateway_tunnel",
        sessions.container_key(it.config.SystemRootToken, uuid),
    )
    for token, secret, status in (
        (supervisor, "wrong", 401),
        (supervisor, sessions.container_key(it.config.SystemRootToken, other), 401),
        (of_other, key, 403), (it.admin, key, 401), (supervisor, "", 401),
    ):  # fmt: skip
        got = await call(it, path, {"auth_secret": secret}, token=token, upgrade="tunnel")
        assert got[0] == status, (token, secret)
    gone = "containers/zzzzz-dz642-000000000000000/gateway_tunnel"
    assert (await call(it, gone, {"auth_secret": key}, upgrade="tunnel"))[0] == 401


async def test_a_dispatcher_of_arvados_brings_a_tunnel_with_a_key_of_its_own_token(
    it: World,
) -> None:
    _, uuid, _ = await running(it, "tunnel")
    key = sessions.container_key(it.dispatcher, uuid)
    caller, path = Caller(), f"containers/{uuid}/gateway_tunnel"
    serving = asyncio.create_task(
        caller.call(it, path, {"auth_secret": key}, token=it.dispatcher, upgrade="tunnel")
    )
    await asyncio.wait_for(caller.taken.wait(), PATIENCE)
    assert (caller.status, caller.pipe is not None) == (101, True)
    container = Container.from_record(await it.ok("GET", f"containers/{uuid}"))
    assert it.app.services.access.gateway_keys(container) == (
        key,
        it.app.services.access.gateway_key(uuid),
    )
    assert caller.pipe is not None
    await caller.pipe.close()
    await asyncio.wait_for(serving, PATIENCE)


@pytest.mark.parametrize("is_arvados", [False, True])
async def test_a_tunnel_comes_while_the_container_is_locked(it: World, is_arvados: bool) -> None:
    uuid = (await it.submit())["container_uuid"]
    supervisor = await it.lock(uuid)
    token = it.dispatcher if is_arvados else supervisor
    key = sessions.container_key(token if is_arvados else it.config.SystemRootToken, uuid)
    caller, path = Caller(), f"containers/{uuid}/gateway_tunnel"
    serving = asyncio.create_task(
        caller.call(it, path, {"auth_secret": key}, token=token, upgrade="tunnel")
    )
    await asyncio.wait_for(caller.taken.wait(), PATIENCE)
    assert caller.status == 101
    # What crunch-run and our supervisor write when it runs does not forget who has the tunnel.
    said = "tunnel https://127.0.0.1:9440/" if is_arvados else "tunnel"
    body = {"state": "Running", "gateway_address": said}
    found = await it.ok("PUT", f"containers/{uuid}", body, token=token)
    assert found["gateway_address"] == "tunnel https://127.0.0.1:9440/"
    assert caller.pipe is not None
    await caller.pipe.close()
    await asyncio.wait_for(serving, PATIENCE)


async def test_that_a_container_has_ended_is_said_before_who_may_enter_it(it: World) -> None:
    request = await it.submit(
        token=await it.user("ann"), secret_mounts={"/secret": {"kind": "text", "content": "x"}}
    )
    uuid = request["container_uuid"]
    await it.run(uuid)
    for named in (uuid, request["uuid"]):
        status, text = await call(it, f"connect/{named}/ssh", token=it.admin)
        assert (status, "has ended (Complete)" in text) == (410, True)


async def test_a_container_that_is_given_back_has_no_gateway(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    supervisor = await it.lock(uuid)
    path = f"containers/{uuid}"
    await it.ok("PUT", path, {"gateway_address": "tunnel"}, token=supervisor)
    assert (await it.ok("POST", f"{path}/unlock", token=supervisor))["gateway_address"] == ""


async def test_only_the_supervisor_is_told_the_key(it: World) -> None:
    _, uuid, supervisor = await running(it, "tunnel")
    path = f"containers/{uuid}"
    assert "gateway_auth_secret" not in await it.ok("GET", path)
    own = await it.container_token(uuid)
    assert "gateway_auth_secret" not in await it.ok("GET", path, token=own)
    key = sessions.container_key(it.config.SystemRootToken, uuid)
    assert (await it.ok("GET", path, token=supervisor))["gateway_auth_secret"] == key
    refused = await it.request("PUT", path, {"gateway_address": "10.0.0.1:80"}, token=own)
    assert refused.status == 422


async def test_what_somebody_was_inside_is_not_reused(it: World, tmp_path: Path) -> None:
    async with entered(it, tmp_path) as (_, uuid, _, supervisor):
        caller = Caller()
        session = asyncio.create_task(caller.call(it, f"connect/{uuid}/ssh", {}, token=it.admin))
        await asyncio.wait_for(caller.taken.wait(), PATIENCE)
        assert caller.pipe is not None
        await caller.pipe.close()
        await asyncio.wait_for(session, PATIENCE)
    again = await it.submit(use_existing=True)
    assert again["container_uuid"] != uuid
    why = await it.ok("GET", f"container_requests/{again['uuid']}/why")
    assert "a user was inside with a shell" in str(why["decision"])
    assert supervisor
