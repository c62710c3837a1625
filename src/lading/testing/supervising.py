"""A fake server for supervisors, as an ASGI application: API and block store, with faults.

It keeps containers, collections and blocks in memory, refuses what the real server refuses (writes
with the wrong token, after the end, an output that is no collection), and counts every call.
`faults` maps `"METHOD kind"` to the statuses of the next answers to such calls, 0 dropping the
connection's answer.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

import msgspec

from lading.core.data import filetree
from lading.core.data import manifest as manifests
from lading.core.ids import is_pdh

CONTAINER = f"zzzzz-dz642-{os.getpid():014d}1"
"""Of each test process another one: the control group of a container, and its name for a daemon, is
its uuid, and a supervisor that ends kills every process of that group.
"""
SUPERVISOR_TOKEN = "v2/zzzzz-gj3su-supervisor00001/" + "s" * 50
AUTH_UUID = "zzzzz-gj3su-containerauth01"
AUTH_SECRET = "c" * 50
_NEXT = {"Locked": ("Queued", "Running", "Cancelled"), "Running": ("Complete", "Cancelled")}
Fields = dict[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass
class FakeServer:
    """The server. `containers` by uuid, `collections` by uuid, `blocks` by hash."""

    containers: dict[str, Fields] = field(default_factory=dict)
    collections: dict[str, Fields] = field(default_factory=dict)
    blocks: dict[str, bytes] = field(default_factory=dict)
    secrets: dict[str, Fields] = field(default_factory=dict)
    live: dict[str, bytes] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    faults: dict[str, list[int]] = field(default_factory=dict)
    on_call: Callable[[str], object] = len
    own_tokens: bool = False
    """Each container has tokens of its own, and its live files have its uuid before their names."""

    def supervisor_token(self, uuid: str) -> str:
        """The token that the supervisor of a container has."""
        own = uuid[-15:] if self.own_tokens else "supervisor00001"
        return f"v2/zzzzz-gj3su-{own}/{'s' * 50}"

    def auth(self, uuid: str) -> tuple[str, str]:
        """The uuid and the secret of the token of a container."""
        if not self.own_tokens:
            return AUTH_UUID, AUTH_SECRET
        return f"zzzzz-gj3su-{uuid[-15:]}", f"{uuid[-15:]:c>50}"

    def add_container(self, uuid: str = CONTAINER, **changes: Any) -> Fields:
        """A Locked container that runs nothing in particular."""
        record: Fields = {
            "uuid": uuid,
            "state": "Locked",
            "command": ["true"],
            "container_image": "",
            "cwd": ".",
            "environment": {},
            "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
            "output_path": "/out",
            "output_glob": [],
            "runtime_constraints": {"API": False, "ram": 64 << 20, "vcpus": 1},
            "scheduling_parameters": {"max_run_time": 0},
            "runtime_status": {},
            "output": None,
            "priority": 1,
        }
        self.containers[uuid] = {**record, **changes}
        return self.containers[uuid]

    def add_collection(self, files: Mapping[str, bytes]) -> str:
        """Store files (no directories above one level) as a collection; its portable data hash."""
        streams: dict[str, list[tuple[str, bytes]]] = {}
        for path, data in files.items():
            folder, _, name = path.rpartition("/")
            streams.setdefault(f"./{folder}" if folder else ".", []).append((name, data))
        manifest = ""
        for stream, members in sorted(streams.items()):
            content = b"".join(data for _, data in members)
            tokens, at = [], 0
            for name, data in members:
                tokens.append(f"{at}:{len(data)}:{manifests.escape(name)}")
                at += len(data)
            manifest += (
                " ".join([manifests.escape(stream), self.add_block(content), *tokens]) + "\n"
            )
        return str(self.store(manifest)["portable_data_hash"])

    def add_block(self, data: bytes) -> str:
        """Store a block; its locator."""
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        self.blocks[digest] = data
        return f"{digest}+{len(data)}"

    def files(self, pdh: str) -> dict[str, bytes]:
        """The files of a collection, whole."""
        record = self._collection(pdh)
        if record is None:
            raise KeyError(pdh)
        contents: dict[str, bytes] = {}
        for stream in manifests.parse(record["manifest_text"]).streams:
            data = b"".join(self.blocks.get(str(locator)[:32], b"") for locator in stream.locators)
            for token in stream.files:
                path = f"{stream.name}/{token.name}".removeprefix("./")
                contents[path] = (
                    contents.get(path, b"") + data[token.position : token.position + token.length]
                )
        return contents

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """ASGI."""
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        token = headers.get("authorization", "").partition(" ")[2]
        # A long query comes as the body of a POST.
        override = headers.get("x-http-method-override")
        call = _Call(
            override or scope["method"],
            unquote(scope["path"]),
            (bytes(body) if override else scope["query_string"]).decode(),
            bytes(body),
            token,
        )
        status, answer = self._answer(call)
        data = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-length", b"%d" % len(data))],
            }
        )
        await send({"type": "http.response.body", "body": data})

    def _answer(self, call: _Call) -> tuple[int, object]:
        kind = call.kind
        name = f"{call.method} {kind}"
        self.calls.append(name)
        self.bodies.append(b"" if kind == "block" else call.body)
        self.on_call(name)
        queue = self.faults.get(name)
        if queue:
            status = queue.pop(0)
            if status:
                return status, {"errors": [f"told to answer {status}"]}
        handler = {
            "block": self._block,
            "collections": self._collections,
            "containers": self._containers,
            "auth": self._auth,
            "secret_mounts": self._secret_mounts,
            "live": self._live,
            "finish": self._finish,
        }[kind]
        return handler(call)

    def _block(self, call: _Call) -> tuple[int, object]:
        digest = call.path[1:33]
        if call.method in ("PUT", "POST"):
            return 200, f"{self.add_block(call.body)}+A{'0' * 40}@ffffffff\n".encode()
        return (200, self.blocks[digest]) if digest in self.blocks else (404, b"not found\n")

    def _collections(self, call: _Call) -> tuple[int, object]:
        if call.method == "GET" and len(call.parts) == 3:
            return 200, {"items": self._listed(parse_qs(call.query))}
        if call.method == "GET":
            record = self._collection(call.parts[3])
            return (200, record) if record else _fault(404, "Path not found")
        attributes = msgspec.json.decode(call.body)["collection"]
        if call.method == "PUT":
            self.collections[call.parts[3]].update(self._described(attributes["manifest_text"]))
            return 200, self.collections[call.parts[3]]
        record = self.store(attributes["manifest_text"])
        record.update(attributes)
        return 200, record

    def _containers(self, call: _Call) -> tuple[int, object]:
        record = self.containers.get(call.parts[3])
        if record is None:
            return _fault(404, "Path not found")
        if self._is_denied(call, record):
            return _fault(401, "Not logged in")
        if call.method == "PUT":
            changes = msgspec.json.decode(call.body)["container"]
            state = changes.get("state", record["state"])
            if state != record["state"] and state not in _NEXT[record["state"]]:
                return _fault(422, f"State cannot change from {record['state']} to {state}")
            if changes.get("output") and self._collection(changes["output"]) is None:
                return _fault(422, "Output collection must exist and be readable by current user.")
            if state != record["state"]:
                self.states.append(state)
            record.update(changes)
        return 200, record

    def _auth(self, call: _Call) -> tuple[int, object]:
        if call.token != self.supervisor_token(call.parts[3]):
            return _fault(403, "Not locked by your token")
        uuid, secret = self.auth(call.parts[3])
        return 200, {"uuid": uuid, "api_token": secret}

    def _secret_mounts(self, call: _Call) -> tuple[int, object]:
        uuid, secret = self.auth(call.parts[3])
        if call.token != f"v2/{uuid}/{secret}/{call.parts[3]}":
            return _fault(403, "Token is not associated with this container.")
        return 200, {"secret_mounts": self.secrets.get(call.parts[3], {})}

    def _live(self, call: _Call) -> tuple[int, object]:
        name = f"{call.parts[3]}/{call.parts[5]}" if self.own_tokens else call.parts[5]
        offset = int(parse_qs(call.query)["offset"][0])
        had = self.live.get(name, b"")
        if offset > len(had):
            return _fault(409, "a gap")
        self.live[name] = had + call.body[len(had) - offset :]
        return 200, {"length": len(self.live[name])}

    def _finish(self, call: _Call) -> tuple[int, object]:
        record, sent = self.containers[call.parts[3]], msgspec.json.decode(call.body)
        if self._is_denied(call, record):
            return _fault(401, "Not logged in")
        for block in sent["blocks"]:
            self.add_block(base64.b64decode(block))
        for name, manifest in sent["collections"].items():
            kept = self.store(manifest)
            kept["name"] = f"{'logs' if name == 'log' else name} for {record['uuid']}"
            record[name] = kept["portable_data_hash"]
        self.states.append(sent["container"]["state"])
        record.update(sent["container"])
        return 200, {"uuid": record["uuid"], "state": record["state"]}

    def _is_denied(self, call: _Call, record: Fields) -> bool:
        return call.token != self.supervisor_token(record["uuid"]) or record["state"] not in _NEXT

    def _collection(self, key: str) -> Fields | None:
        if is_pdh(key):
            return next(
                (
                    collection
                    for collection in self.collections.values()
                    if collection["portable_data_hash"] == key
                ),
                None,
            )
        return self.collections.get(key)

    def _listed(self, query: Mapping[str, list[str]]) -> list[Fields]:
        """The collections that a list call with the filters of `Inputs.read_trees` means."""
        (_, _, wanted), (_, _, files), (_, _, size) = msgspec.json.decode(query["filters"][0])
        listed = []
        for collection in self.collections.values():
            tree = filetree.from_manifest(collection["manifest_text"])
            is_small = len([*filetree.files(tree)]) <= files and filetree.total_size(tree) <= size
            if collection["portable_data_hash"] in wanted and is_small:
                listed.append({"trash_at": None, **collection})
        return listed

    def _described(self, manifest: str) -> Fields:
        return {
            "manifest_text": manifest,
            "portable_data_hash": manifests.portable_data_hash(manifest),
        }

    def store(self, manifest: str) -> Fields:
        """Keep a collection with this manifest; its record."""
        uuid = f"zzzzz-4zz18-{len(self.collections):015d}"
        self.collections[uuid] = {"uuid": uuid, **self._described(manifest)}
        return self.collections[uuid]


@dataclass(frozen=True)
class _Call:
    """One request."""

    method: str
    path: str
    query: str
    body: bytes
    token: str

    @property
    def parts(self) -> list[str]:
        """The elements of the path: "", arvados, v1 are left out."""
        return self.path.split("/")[1:]

    @property
    def kind(self) -> str:
        """Name of the handler of this request."""
        if not self.path.startswith("/arvados/"):
            return "block"
        return self.parts[4] if len(self.parts) > 4 else self.parts[2]


def _fault(status: int, message: str) -> tuple[int, object]:
    return status, {"errors": [message]}
