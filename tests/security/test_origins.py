"""Pages of other sites and of hostile containers, and what they can do with the browser of a
user.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from lading.core.containers import sessions
from lading.supervisor.engines import EngineSettings
from tests.api.container_access.test_published_ports import InsideEngine, container
from tests.security.serving import Reply, Site, serving
from tests.supervisor.container_gateway.entering import gateway_of

pytestmark = pytest.mark.system
EVIL = "https://evil.example"
DOMAIN = "containers.example"
CROSS = {"Sec_Fetch_Site": "cross-site", "Origin": EVIL}
SIBLING = {"Sec_Fetch_Site": "same-site", "Origin": f"https://other.{DOMAIN}"}
OLD = {"Origin": EVIL}
SANDBOXED = {"Sec_Fetch_Site": "cross-site", "Origin": "null"}
LINK = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
FORM = {"Content_Type": "application/x-www-form-urlencoded"}
HOSTILE = """
import fcntl, http.server, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))
FIELDS = {fields}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upgrade = self.headers.get("Upgrade")
        self.send_response(101 if upgrade else 200)
        for name, value in FIELDS:
            self.send_header(name, value)
        text = str(self.headers).encode()
        if upgrade:
            self.send_header("Upgrade", upgrade)
            self.send_header("Connection", "upgrade")
        else:
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(b"" if upgrade else text)
        self.close_connection = bool(upgrade)
    do_POST = do_GET
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler)
print("up", flush=True)
server.serve_forever()
"""
HOST_WIDE = [
    ("Clear-Site-Data", '"*"'), ("Strict-Transport-Security", "max-age=0; includeSubDomains"),
    ("Public-Key-Pins", "max-age=1"), ("Expect-CT", "enforce"),
    ("Alt-Svc", 'h3="evil.example:443"'), ("NEL", '{"report_to": "x"}'),
    ("Report-To", '{"group": "x"}'), ("Set-Login", "logged-out"),
    ("X-Accel-Redirect", "/private/secrets"), ("X-Sendfile", "/etc/shadow"),
    ("X-Reproxy-URL", "http://10.0.0.1/"), ("Secure-Session-Registration", "(ES256)"),
    ("X-Arvados-Authorization-Response", "x"),
]  # fmt: skip
ORIGIN_WIDE = [
    ("Service-Worker-Allowed", "/"), ("Accept-CH", "DPR"), ("Use-As-Dictionary", 'match="/*"'),
    ("WWW-Authenticate", 'Basic realm="collections"'), ("Access-Control-Allow-Credentials", "true"),
    ("Speculation-Rules", '"/x"'), ("Attribution-Reporting-Register-Source", "{}"),
]  # fmt: skip
COOKIES = [
    ("Set-Cookie", "mine=1; Path=/"), ("Set-Cookie", "wide=1; Domain=example"),
    ("Set-Cookie", "arvados_api_token=of-the-attacker; Path=/"),
    ("Set-Cookie", "=arvados_api_token=x; Path=/"),
    ("Set-Cookie", "arvados_container_uuid=x; Path=/"),
]  # fmt: skip


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    services = {"ContainerWebServices": {"ExternalURL": f"https://*.{DOMAIN}/"}}
    async with serving(tmp_path / "data", Services=services) as made:
        yield made


@asynccontextmanager
async def hostile(
    site: Site, tmp_path: Path, owner: str, *, access: str = "private"
) -> AsyncIterator[str]:
    """A running container of `owner` whose port 8000 answers with all of these fields; its uuid."""
    published = {"8000": {"access": access, "label": "x", "initial_path": ""}}
    uuid = str(
        (await site.request(owner, service=True, published_ports=published))["container_uuid"]
    )
    engine = InsideEngine(
        EngineSettings(container_uuid=uuid, run_directory="/", cache_directory=str(tmp_path))
    )
    key = sessions.container_key(site.secrets.system_root_token, uuid)
    with container(
        HOSTILE.replace("{fields}", repr(HOST_WIDE + ORIGIN_WIDE + COOKIES))
    ) as engine.inside:
        async with gateway_of(engine, uuid=uuid, key=key) as gateway:
            address = f"127.0.0.1:{gateway.port}"
            reply = await site.write(
                uuid, await site.lock(uuid), state="Running", gateway_address=address
            )
            assert reply.status == 200, reply.text
            yield uuid


def basic(token: str) -> str:
    return f"Basic {base64.b64encode(f'user:{token}'.encode()).decode()}"


async def collections(site: Site, token: str) -> int:
    reply = await site.call("GET", "/arvados/v1/collections?limit=1000", token=token)
    return reply.text.count('"uuid"')


@pytest.mark.attack(
    "a page of another site lets the browser of a user call the API with a password that it keeps"
)
async def test_a_kept_password_is_not_for_other_sites(site: Site) -> None:
    alice = await site.user("alice")
    kept = {"Authorization": basic(alice)}
    before = await collections(site, alice)
    body = "collection=%7B%22name%22%3A%22forged%22%7D"
    for page in (CROSS, SIBLING, OLD, SANDBOXED, {**LINK, "Origin": EVIL}):
        for content in (
            FORM,
            {"Content_Type": "text/plain"},
            {"Content_Type": "application/json"},
            {},
        ):
            reply = await site.call(
                "POST", "/arvados/v1/collections", data=body, **kept, **page, **content
            )
            assert reply.status == 403, (page, content, reply.text)
        reply = await site.call(
            "POST", "/arvados/v1/collections?_method=DELETE", data=b"", **kept, **page
        )
        assert reply.status == 403
    for page in (CROSS, SIBLING, OLD, SANDBOXED):
        assert (await site.call("GET", "/arvados/v1/users/current", **kept, **page)).status == 403
    assert await collections(site, alice) == before
    # A form without a password is one of nobody, whatever token it brings.
    reply = await site.call(
        "POST", "/arvados/v1/collections", data=f"{body}&api_token={alice}", **FORM, **CROSS
    )
    assert reply.status == 403
    async with site.http.ws_connect(
        f"https://{site.address}/websocket", headers=kept, ssl=False
    ) as socket:
        await socket.close()
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await site.http.ws_connect(
            f"https://{site.address}/websocket", headers={**kept, "Origin": EVIL}, ssl=False
        )
    # What is no browser, our own pages, links, and a page that knows the token itself, all pass.
    own = {"Origin": f"https://{site.address}", "Sec_Fetch_Site": "same-origin"}
    for good in (
        {**kept},
        {**kept, **own},
        {**kept, **LINK},
        {"Authorization": f"Bearer {alice}", **CROSS},
    ):
        reply = await site.call("GET", "/arvados/v1/users/current", **good)
        assert reply.status == 200, reply.text
    bearer = {"Authorization": f"Bearer {alice}"}
    for good in ({**kept, **FORM}, {**kept, **FORM, **own}, {**bearer, **FORM, **CROSS}):
        reply = await site.call(
            "POST", "/arvados/v1/collections?ensure_unique_name=true", data=body, **good
        )
        assert reply.status == 200, reply.text
    asked = await site.call("OPTIONS", "/arvados/v1/collections", **CROSS)
    assert (asked.status, asked.headers["access-control-allow-origin"]) == (200, ["*"])
    assert "Authorization" in asked.headers["access-control-allow-headers"][0]
    assert "access-control-allow-credentials" not in asked.headers


@pytest.mark.attack(
    "a page of another site reads private files with the cookie or the password of a user"
)
async def test_files_are_not_for_pages_of_other_sites(site: Site) -> None:
    alice = await site.user("alice")
    manifest = ". d41d8cd98f00b204e9800998ecf8427e+0 0:0:page.html\n"
    made = await site.call(
        "POST", "/arvados/v1/collections", token=alice, json={"manifest_text": manifest}
    )
    uuid = made.text.partition('"uuid":"')[2][:27]
    path = f"/c={uuid}/page.html"
    cookie = {"Cookie": f"arvados_api_token={base64.urlsafe_b64encode(alice.encode()).decode()}"}
    for page in (CROSS, SIBLING, SANDBOXED, OLD):
        for kept, status in ((cookie, 401), ({"Authorization": basic(alice)}, 403)):
            reply = await site.call("GET", path, **kept, **page)
            assert reply.status == status, (page, kept, reply.text)
        assert (
            await site.call("PUT", path, data=b"x", Authorization=basic(alice), **page)
        ).status == 403
    for kept in (cookie, {"Authorization": basic(alice)}):
        for good in ({}, LINK, {"Sec_Fetch_Site": "same-origin"}):
            reply = await site.call("GET", path, **kept, **good)
            assert reply.status == 200, reply.text
            assert "sandbox" in reply.headers["content-security-policy"][0]
            assert reply.headers["x-content-type-options"] == ["nosniff"]
    worker = await site.call(
        "GET", path, **cookie, Service_Worker="script", Sec_Fetch_Site="same-origin"
    )
    assert worker.status == 403


@pytest.mark.attack(
    "a container answers with headers that would govern the browser's API, "
    "its neighbours or the proxy"
)
async def test_headers_of_a_container_stay_with_it(site: Site, tmp_path: Path) -> None:
    alice = await site.user("alice")
    async with hostile(site, tmp_path, alice) as uuid:
        host = f"{uuid}-8000.{DOMAIN}"

        async def ask(by_path: bool, **more: str) -> Reply:
            if by_path:
                return await site.call("GET", f"/services/{uuid}-8000/", token=alice, **more)
            return await site.call("GET", "/", token=alice, Host=host, **more)

        for by_path in (True, False):
            for upgrade in ({}, {"Upgrade": "echo", "Connection": "upgrade"}):
                reply = await ask(by_path, **upgrade)
                assert reply.status == (101 if upgrade else 200), reply.text
                cookies = [
                    one for one in reply.headers.get("set-cookie", []) if "HttpOnly" not in one
                ]
                assert cookies == ([] if by_path else ["mine=1; Path=/", "wide=1"])
                for name, _ in HOST_WIDE:
                    assert name.lower() not in reply.headers, (by_path, upgrade, name)
                for name, _ in ORIGIN_WIDE:
                    assert (name.lower() in reply.headers) is not by_path, (by_path, upgrade, name)
                policy = ", ".join(reply.headers.get("content-security-policy", []))
                assert ("sandbox" in policy) is by_path
                assert "allow-same-origin" not in policy
        worker = await ask(True, Service_Worker="script", Sec_Fetch_Site="same-origin")
        assert worker.status == 403


@pytest.mark.attack(
    "a page of one container uses the browser of a user against another container of that user"
)
async def test_containers_do_not_reach_each_other_through_a_browser(
    site: Site, tmp_path: Path
) -> None:
    alice = await site.user("alice")
    async with hostile(site, tmp_path, alice) as uuid:
        host = f"{uuid}-8000.{DOMAIN}"
        cookie = {"Cookie": f"arvados_api_token={alice}; mine=1"}
        for kept in (cookie, {"Authorization": basic(alice)}):
            for page in (CROSS, SIBLING, SANDBOXED, OLD):
                for method in ("GET", "POST"):
                    for path, more in (("/x", {"Host": host}), (f"/services/{uuid}-8000/x", {})):
                        reply = await site.call(method, path, **kept, **page, **more)
                        assert reply.status == 401, (kept, page, method, reply.text)
                socket = {
                    "Upgrade": "websocket",
                    "Connection": "upgrade",
                    "Sec_Fetch_Mode": "websocket",
                }
                assert (
                    await site.call("GET", "/x", Host=host, **kept, **page, **socket)
                ).status == 401
            for good in ({}, LINK, {"Sec_Fetch_Site": "same-origin", "Origin": f"https://{host}"}):
                reply = await site.call("GET", "/x", Host=host, **kept, **good)
                assert reply.status == 200, reply.text
                assert alice not in reply.text
        reply = await site.call("POST", "/x", Host=host, Authorization=f"Bearer {alice}", **CROSS)
        assert reply.status == 200
        assert alice not in reply.text
