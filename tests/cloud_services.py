"""Small Azure, Google and OpenStack services over HTTP, for libcloud's own code, and metadata
services of EC2, Azure and Google.

Each keeps what it was asked to make, refuses what the real one refuses (wrong credentials, unknown
images and sizes, interfaces in use, tags that are none), and answers in its own form. `next` has
answers for the next requests that match, in place of the real ones.

Small fakes of the metadata services of EC2, Azure and Google, as ASGI applications: what a spot
machine can ask.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec


@dataclass(frozen=True, slots=True)
class CloudReply:
    """What is answered."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request: `query` has the first value of each name."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any

    def matches(self, method: str, pattern: str) -> re.Match[str] | None:
        """The groups of the path when method and the whole path are so."""
        return re.fullmatch(pattern, self.path) if self.method == method else None


class RestCloud(ABC):
    """The common part of the three fake clouds."""

    secret = "right"

    def __init__(self) -> None:
        self.endpoint = ""
        self.asked: list[Asked] = []
        self.next: list[tuple[str, str, CloudReply]] = []
        """Method, a part of the path, and the answer, each used once."""
        self._number = itertools.count(1)
        self._lock = threading.Lock()

    def answer(self, asked: Asked) -> CloudReply:
        """One request at a time."""
        with self._lock:
            self.asked.append(asked)
            for one in self.next:
                if asked.method == one[0] and one[1] in asked.path:
                    self.next.remove(one)
                    return one[2]
            return self.serve(asked)

    @abstractmethod
    def serve(self, asked: Asked) -> CloudReply:
        """The answer of the cloud."""

    def address(self) -> str:
        """One that was not given before."""
        number = next(self._number)
        return f"10.1.{number >> 8}.{number & 255}"


class FakeOpenStack(RestCloud):
    """Keystone and Nova."""

    image = "11111111-2222-3333-4444-555555555555"

    def __init__(self) -> None:
        super().__init__()
        self.servers: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, str] = {}

    @property
    def parameters(self) -> dict[str, object]:
        """Of the driver."""
        return {
            "Provider": "openstack", "AuthURL": f"{self.endpoint}/v3", "Username": "me",
            "Password": self.secret, "Project": "lab", "Region": "one", "Network": "net-1",
            "AdminUsername": "debian",
        }  # fmt: skip

    def serve(self, asked: Asked) -> CloudReply:
        """Keystone, flavors, key pairs, servers."""
        if asked.path == "/v3/auth/tokens":
            return self._log_in(asked.body)
        if asked.headers.get("x-auth-token") != "token":
            return CloudReply(
                401,
                {
                    "error": {
                        "code": 401,
                        "message": "The request you have made requires authentication.",
                    }
                },
            )
        if asked.path == "/nova/flavors/detail":
            return CloudReply(
                200, {"flavors": [{"id": "7", "name": "t3.small"}, {"id": "8", "name": "large"}]}
            )
        if found := asked.matches("GET", "/nova/os-keypairs/(.+)"):
            return (
                CloudReply(200, {"keypair": {"name": found[1]}})
                if found[1] in self.keys
                else _missing("Keypair")
            )
        if asked.matches("POST", "/nova/os-keypairs"):
            self.keys[asked.body["keypair"]["name"]] = asked.body["keypair"]["public_key"]
            return CloudReply(200, asked.body)
        if asked.matches("POST", "/nova/servers"):
            return self._create(asked.body["server"])
        if asked.matches("GET", "/nova/servers/detail"):
            return self._list(asked.query)
        found = re.fullmatch("/nova/servers/([^/]+)(/metadata)?", asked.path)
        server = self.servers.get(found[1]) if found else None
        if server is None:
            return _missing("Instance")
        if asked.method == "DELETE":
            del self.servers[server["id"]]
            return CloudReply(204)
        if asked.method == "PUT":
            server["metadata"] = asked.body["metadata"]
        return CloudReply(200, {"server": server, "metadata": server["metadata"]})

    def _log_in(self, body: Mapping[str, Any]) -> CloudReply:
        identity = body["auth"]["identity"]
        given = identity.get("password", {}).get("user", {}).get("password")
        if (given or identity.get("application_credential", {}).get("secret")) != self.secret:
            return CloudReply(
                401,
                {
                    "error": {
                        "code": 401,
                        "message": "The request you have made requires authentication.",
                    }
                },
            )
        endpoint = {
            "interface": "public",
            "region": "one",
            "region_id": "one",
            "url": f"{self.endpoint}/nova",
        }
        token = {
            "expires_at": "2099-01-01T00:00:00.000000Z", "issued_at": "2020-01-01T00:00:00.000000Z",
            "catalog": [{
                "type": "compute", "name": "nova", "id": "n",
                "endpoints": [{**endpoint, "id": "e"}],
            }],
            "user": {"id": "u", "name": "me", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": "p", "name": "lab"}, "roles": [{"id": "r", "name": "member"}],
            "methods": ["password"],
        }  # fmt: skip
        return CloudReply(201, {"token": token}, {"X-Subject-Token": "token"})

    def _create(self, given: Mapping[str, Any]) -> CloudReply:
        if given["imageRef"] != self.image:
            return CloudReply(
                400,
                {
                    "badRequest": {
                        "code": 400,
                        "message": f"Can not find requested image {given['imageRef']}",
                    }
                },
            )
        if given["flavorRef"] not in ("7", "8") or given.get("key_name") not in (None, *self.keys):
            return CloudReply(
                400,
                {"badRequest": {"code": 400, "message": "Invalid flavor or key_name provided."}},
            )
        if any(
            not isinstance(value, str) or len(value) > 255 for value in given["metadata"].values()
        ):
            return CloudReply(
                400,
                {
                    "badRequest": {
                        "code": 400,
                        "message": "Metadata property value greater than 255",
                    }
                },
            )
        id = f"server-{next(self._number):04}"
        addresses = {"net": [{"addr": self.address(), "version": 4, "OS-EXT-IPS:type": "fixed"}]}
        self.servers[id] = {
            **given, "id": id, "status": "ACTIVE", "addresses": addresses,
            "flavor": {"id": given["flavorRef"]},
        }  # fmt: skip
        return CloudReply(202, {"server": {"id": id}})

    def _list(self, query: Mapping[str, str]) -> CloudReply:
        found = [
            one for one in self.servers.values() if re.search(query.get("name", ""), one["name"])
        ]
        later = [one for one in found if one["id"] > query.get("marker", "")]
        return CloudReply(200, {"servers": later[: int(query.get("limit", "1000"))]})


class FakeAzure(RestCloud):
    """The resource manager, and the place where one logs in."""

    image = "Debian:debian-12:12-gen2:latest"
    late_failure: Mapping[str, str] | None = None
    """What the next order fails with after it was taken."""

    def __init__(self) -> None:
        super().__init__()
        self.machines: dict[str, dict[str, Any]] = {}
        self.interfaces: dict[str, dict[str, Any]] = {}

    @property
    def parameters(self) -> dict[str, object]:
        """Of the driver."""
        return {
            "Provider": "azure", "SubscriptionID": "sub", "TenantID": "tenant",
            "ClientID": "client", "ClientSecret": self.secret, "Location": "westeurope",
            "ResourceGroup": "vms", "Network": "net", "DeleteDanglingResourcesAfter": 0,
        }  # fmt: skip

    def serve(self, asked: Asked) -> CloudReply:
        """Log in; machines and interfaces."""
        if asked.path == "/tenant/oauth2/token":
            if asked.body.get("client_secret") != self.secret:
                said = "AADSTS7000215: Invalid client secret provided."
                return CloudReply(401, {"error": "invalid_client", "error_description": said})
            return CloudReply(200, {"access_token": "token", "expires_on": "4102444800"})
        if asked.headers.get("authorization") != "Bearer token":
            return _azure(401, "InvalidAuthenticationToken", "The access token is invalid.")
        if asked.path == "/operations/1":
            failure, self.late_failure = self.late_failure, None
            return CloudReply(
                200, {"status": "Failed", "error": failure} if failure else {"status": "Succeeded"}
            )
        start = "/subscriptions/sub/resourceGroups/vms/providers/Microsoft"
        found = re.fullmatch(f"{start}.Compute/virtualMachines(?:/(.+))?", asked.path)
        if found:
            return self._machine(asked, found[1])
        found = re.fullmatch(f"{start}.Network/networkInterfaces(?:/(.+))?", asked.path)
        return (
            self._interface(asked, found[1])
            if found
            else _azure(404, "ResourceGroupNotFound", "No such group.")
        )

    def _machine(self, asked: Asked, name: str | None) -> CloudReply:
        if name is None:
            return self._page(list(self.machines.values()), asked)
        if asked.method == "PUT":
            return self._create(asked, name)
        if name not in self.machines:
            return (
                CloudReply(204)
                if asked.method == "DELETE"
                else _azure(404, "ResourceNotFound", "No such machine.")
            )
        if asked.method == "DELETE":
            gone = self.machines.pop(name)
            for one in gone["properties"]["networkProfile"]["networkInterfaces"]:
                if one["properties"].get("deleteOption") == "Delete":
                    self.interfaces.pop(one["id"].rpartition("/")[2], None)
            return CloudReply(202)
        self.machines[name]["tags"] = asked.body["tags"]
        return CloudReply(200, self.machines[name])

    def _create(self, asked: Asked, name: str) -> CloudReply:
        given = asked.body
        if given["properties"]["storageProfile"]["imageReference"].get("publisher") != "Debian":
            return _azure(404, "PlatformImageNotFound", "The platform image is not available.")
        if len(name) > 64 or "ssh" not in given["properties"]["osProfile"]["linuxConfiguration"]:
            return _azure(400, "InvalidParameter", "Authentication using SSH keys is required.")
        made = {**given, "name": name, "id": asked.path}
        made["properties"] = {**given["properties"], "provisioningState": "Succeeded"}
        self.machines[name] = made
        for one in given["properties"]["networkProfile"]["networkInterfaces"]:
            self.interfaces[one["id"].rpartition("/")[2]]["properties"]["virtualMachine"] = {
                "id": asked.path
            }
        at = (
            {"Azure-AsyncOperation": f"{self.endpoint}/operations/1?api-version=1"}
            if self.late_failure
            else {}
        )
        return CloudReply(201, made, at)

    def _interface(self, asked: Asked, name: str | None) -> CloudReply:
        if name is None:
            return self._page(list(self.interfaces.values()), asked)
        if asked.method == "PUT":
            inner = {"properties": {"privateIPAddress": self.address()}}
            made = {**asked.body, "name": name, "properties": {"ipConfigurations": [inner]}}
            self.interfaces[name] = made
            return CloudReply(201, made)
        there = self.interfaces.get(name)
        if (
            there is not None
            and there["properties"].get("virtualMachine", {}).get("id", "").rpartition("/")[2]
            in self.machines
        ):
            return _azure(400, "NicInUse", "Network interface is used by an existing VM.")
        return CloudReply(204 if self.interfaces.pop(name, None) is None else 202)

    def _page(self, items: list[dict[str, Any]], asked: Asked) -> CloudReply:
        """Two on a page."""
        start = int(asked.query.get("$skiptoken", "0"))
        answer: dict[str, Any] = {"value": items[start : start + 2]}
        if start + 2 < len(items):
            answer["nextLink"] = f"https://management.azure.com{asked.path}?$skiptoken={start + 2}"
        return CloudReply(200, answer)


class FakeGoogle(RestCloud):
    """Compute Engine, and the place where one logs in; it believes every key."""

    image = "projects/debian-cloud/global/images/family/debian-12"
    late_failure: Mapping[str, str] | None = None
    """What the next order fails with after it was taken."""

    def __init__(self) -> None:
        super().__init__()
        self.instances: dict[str, dict[str, Any]] = {}
        self.key_file = ""

    @property
    def parameters(self) -> dict[str, object]:
        """Of the driver."""
        return {
            "Provider": "google", "Project": "lab", "Zone": "europe-west4-a",
            "ServiceAccount": "d@lab.example", "KeyFile": self.key_file,
        }  # fmt: skip

    def serve(self, asked: Asked) -> CloudReply:
        """Log in; instances and operations."""
        if asked.path == "/o/oauth2/token":
            if self.secret != "right":
                return CloudReply(
                    400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
                )
            return CloudReply(
                200, {"access_token": "token", "expires_in": 3600, "token_type": "Bearer"}
            )
        if asked.headers.get("authorization") != "Bearer token":
            return _google(401, "authError", "Invalid Credentials")
        zone = "/compute/v1/projects/lab/zones/europe-west4-a"
        if asked.path == f"{zone}/operations/op":
            failure, self.late_failure = self.late_failure, None
            fault = {"error": {"errors": [failure]}} if failure else {}
            return CloudReply(200, {"name": "op", "status": "DONE", **fault})
        found = re.fullmatch(
            f"{zone}/instances(?:/([^/]+))?(?:/(setMetadata|setLabels))?", asked.path
        )
        if found is None:
            return _google(404, "notFound", f"The resource {asked.path} was not found")
        name, act = found[1], found[2]
        if name is None:
            return self._create(asked.body) if asked.method == "POST" else self._list(asked.query)
        if name not in self.instances:
            return _google(404, "notFound", f"The resource '{name}' was not found")
        return self._operate(asked, name, act)

    def _operate(self, asked: Asked, name: str, act: str | None) -> CloudReply:
        there = self.instances[name]
        if asked.method == "GET":
            return CloudReply(200, there)
        if asked.method == "DELETE":
            del self.instances[name]
        elif act == "setLabels":
            there["labels"] = asked.body["labels"]
        elif act == "setMetadata":
            if asked.body["fingerprint"] != there["metadata"]["fingerprint"]:
                return _google(412, "conditionNotMet", "Supplied fingerprint does not match")
            there["metadata"]["items"] = asked.body["items"]
        return CloudReply(200, {"name": "op", "status": "RUNNING"})

    def _create(self, given: Mapping[str, Any]) -> CloudReply:
        legal = re.compile(r"[a-z0-9_-]{0,63}")
        if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", given["name"]):
            return _google(
                400, "invalid", f"Invalid value for field 'resource.name': '{given['name']}'"
            )
        if not all(
            legal.fullmatch(key) and legal.fullmatch(value)
            for key, value in given["labels"].items()
        ):
            return _google(400, "invalid", "Invalid value for field 'resource.labels'")
        if given["disks"][0]["initializeParams"]["sourceImage"] != self.image:
            return _google(404, "notFound", "The resource for the image was not found")
        network = {**given["networkInterfaces"][0], "networkIP": self.address()}
        self.instances[given["name"]] = {
            **given, "status": "RUNNING", "networkInterfaces": [network], "labelFingerprint": "l",
            "metadata": {**given["metadata"], "fingerprint": "m"},
        }  # fmt: skip
        return CloudReply(200, {"name": "op", "status": "RUNNING"})

    def _list(self, query: Mapping[str, str]) -> CloudReply:
        name, _, value = query["filter"].removeprefix("labels.").partition("=")
        found = [one for one in self.instances.values() if one["labels"].get(name) == value]
        start = int(query.get("pageToken", "0"))
        answer: dict[str, Any] = {"items": found[start : start + 2]}
        if start + 2 < len(found):
            answer["nextPageToken"] = str(start + 2)
        return CloudReply(200, answer)


def _missing(what: str) -> CloudReply:
    return CloudReply(
        404, {"itemNotFound": {"code": 404, "message": f"{what} could not be found."}}
    )


def _azure(status: int, code: str, message: str) -> CloudReply:
    return CloudReply(status, {"error": {"code": code, "message": message}})


def _google(status: int, reason: str, message: str) -> CloudReply:
    return CloudReply(
        status,
        {
            "error": {
                "code": status,
                "message": message,
                "errors": [{"reason": reason, "message": message}],
            }
        },
    )


@contextmanager
def serving_cloud(cloud: RestCloud) -> Iterator[None]:
    """Serve it on this machine; its `endpoint` is where."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            length = int(self.headers.get("content-length") or 0)
            way, data = urlsplit(self.path), self.rfile.read(length).decode()
            form = "urlencoded" in (self.headers.get("content-type") or "")
            body = (
                {name: values[0] for name, values in parse_qs(data).items()}
                if form
                else json.loads(data or "null")
            )
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = {name: values[0] for name, values in parse_qs(way.query).items()}
            reply = cloud.answer(
                Asked(method=self.command, path=way.path, query=query, headers=headers, body=body)
            )
            payload = b"" if reply.body is None else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            if reply.status != 204:
                self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="cloud service"
    )
    thread.start()
    cloud.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass
class FakeMetadata:
    """Answers by path; `faults` are the statuses of the next answers. EC2's paths want a token that
    was given out.
    """

    documents: dict[str, Any] = field(default_factory=dict)
    faults: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """ASGI."""
        del receive
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        status, body = self._answer(scope["method"], scope["path"], headers)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        self.calls.append(f"{method} {path}")
        if self.faults:
            return self.faults.pop(0), b""
        if (method, path) == ("PUT", "/latest/api/token"):
            self.tokens.append(f"token{len(self.tokens)}")
            known = headers.get("x-aws-ec2-metadata-token-ttl-seconds", "").isdigit()
            return (200, self.tokens[-1].encode()) if known else (400, b"")
        if (
            path.startswith("/latest/")
            and headers.get("x-aws-ec2-metadata-token") not in self.tokens[-1:]
        ):
            return 401, b""
        if path.startswith("/metadata/") and headers.get("metadata") != "true":
            return 400, b""
        if path.startswith("/computeMetadata/") and headers.get("metadata-flavor") != "Google":
            return 403, b""
        found = self.documents.get(path)
        if found is None:
            return 404, b""
        return 200, found.encode() if isinstance(found, str) else msgspec.json.encode(found)
