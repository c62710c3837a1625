"""A real control plane of Kubernetes on the loopback of this machine: etcd, kube-apiserver,
kube-controller-manager and kube-scheduler.

etcd is an installed program; the others are built once from the modules that
`requirements/kubernetes` and `requirements/kustomize` pin, and kept in the user's cache directory.
Its nodes are those of `kubernetes_kubelet` (a real one) and `kubernetes_nodes` (played).
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lading.client.transport import HttpTransport
from lading.core.errors import LadingError
from lading.wiring.directory import ensure_certificate
from tests.system.cluster import free_address
from tests.system.environments import ROOT, kept

_CONTROL = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
KUBELET = "kubelet0"
"""The name of the real node, which `ControlPlane.node_token` belongs to."""
_PINS = ROOT / "requirements" / "kubernetes"
_KUSTOMIZE = ROOT / "requirements" / "kustomize"
# Seconds: of the build on a slow machine, and until a program answers.
_BUILD_TIME, _PATIENCE = 3600.0, 120.0
_MERGE = "application/merge-patch+json"


def programs() -> Path:
    """The directory of the programs, the kubelet too, built if need be. Needs Go. Fails with what
    Go said.
    """
    names = (*_CONTROL, "kubelet")
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in names]
    pins = b"".join((_PINS / name).read_bytes() for name in ("go.mod", "go.sum"))
    pins += " ".join(names).encode()
    return kept("kubernetes", pins, lambda place: build_modules(_PINS, place, packages))


def kustomize(folder: Path) -> list[dict[str, Any]]:
    """The objects of a kustomization, rendered by the program kustomize, which is built if need be:
    `kubectl` of the same version has the same one inside.
    """
    package = "sigs.k8s.io/kustomize/kustomize/v5"
    pins = b"".join((_KUSTOMIZE / name).read_bytes() for name in ("go.mod", "go.sum"))
    place = kept("kustomize", pins, lambda place: build_modules(_KUSTOMIZE, place, [package]))
    command = [str(place / "kustomize"), "build", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def build_modules(pins: Path, place: Path, packages: Sequence[str], *options: str) -> None:
    """Build programs of the modules that a directory pins into a new directory, with further
    options of `go build`. Fails with what Go said.
    """
    place.mkdir(exist_ok=True)
    # The build cache takes 3 GB, and is not needed again.
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="build-") as built:
        command = ["go", "build", "-trimpath", "-ldflags=-s -w", *options, "-o", f"{place}/"]
        done = subprocess.run(
            [*command, *packages],
            cwd=pins,
            env={**os.environ, "GOCACHE": built, "GOTMPDIR": built},
            capture_output=True,
            text=True,
            timeout=_BUILD_TIME,
            check=False,
        )
    assert done.returncode == 0, f"go build: {done.stderr[-2000:]}"


class ApiRefused(Exception):
    """An answer of the API server with another status than 2xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


@dataclass
class ControlPlane:
    """The running programs. `admin` is a bearer token that may do anything, `node_token` one of the
    node `KUBELET`.
    """

    folder: Path
    url: str
    transport: HttpTransport
    admin: str = field(repr=False)
    node_token: str = field(repr=False)
    commands: dict[str, list[str]] = field(repr=False)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, repr=False)

    def start(self, name: str) -> None:
        """Start a program that does not run."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                self.commands[name], stdout=log, stderr=log, start_new_session=True, cwd=self.folder
            )

    def end(self, name: str) -> None:
        """Kill a program, and wait for its end."""
        process = self.running.pop(name)
        process.kill()
        process.wait(30)

    async def until_ready(self) -> None:
        """Wait for the API server. Fails with the end of its log."""
        until = time.monotonic() + _PATIENCE
        while not await self._is_ready():
            log = (self.folder / "kube-apiserver.log").read_text()[-3000:]
            assert self.running["kube-apiserver"].poll() is None, log
            assert time.monotonic() < until, log
            await asyncio.sleep(0.1)

    async def _is_ready(self) -> bool:
        try:
            await self.ask("GET", "/readyz")
        except (LadingError, ApiRefused):
            return False
        return True

    async def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One request as the administrator; PATCH is a merge. Raises ApiRefused, Unavailable."""
        answer = await self.transport.request(
            method, path, timeout=30.0,
            headers={
                "Authorization": f"Bearer {self.admin}", "Accept": "application/json",
                "Content-Type": _MERGE if method == "PATCH" else "application/json",
            },
            body=b"" if body is None else msgspec.json.encode(body),
        )  # fmt: skip
        if answer.status >= 300:
            raise ApiRefused(answer.status, answer.body.decode(errors="replace"))
        if not answer.body.startswith(b"{"):
            return {}
        return msgspec.json.decode(answer.body, type=dict[str, Any])

    def kubeconfig(self, name: str, token: str, *, namespace: str = "default") -> Path:
        """Write a kubeconfig with a bearer token."""
        authority = base64.b64encode((self.folder / "api.crt").read_bytes()).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        path = self.folder / f"{name}.kubeconfig"
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [
                {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": namespace}}
            ],
        }  # fmt: skip
        path.write_text(yaml.safe_dump(document))
        return path


@asynccontextmanager
async def running_control_plane(folder: Path) -> AsyncGenerator[ControlPlane]:
    """A control plane on an empty etcd, until the end of the context."""
    etcd, peer, api = (free_address() for _ in range(3))
    host, _, port = api.partition(":")
    url, admin, node = f"https://{api}", secrets.token_hex(20), secrets.token_hex(20)
    # The key of the server signs the tokens of service accounts, too.
    certificate, key = folder / "api.crt", folder / "api.key"
    ensure_certificate(certificate, key, host=host, now=datetime.now(UTC))
    users = [
        f'{admin},admin,1,"system:masters"',
        f'{node},system:node:{KUBELET},2,"system:nodes"',
    ]
    (folder / "tokens.csv").write_text("\n".join(users) + "\n")
    tls = ssl.create_default_context(cafile=str(certificate))
    async with HttpTransport(url, verify=tls) as transport:
        made = ControlPlane(folder, url, transport, admin, node, {})
        config = made.kubeconfig("admin", admin)
        made.commands |= _commands(programs(), folder, etcd, peer, port, config)
        try:
            made.start("etcd")
            made.start("kube-apiserver")
            await made.until_ready()
            made.start("kube-controller-manager")
            made.start("kube-scheduler")
            yield made
        finally:
            # etcd last: the others wait for it.
            for name in reversed([*made.running]):
                made.end(name)


def _commands(
    place: Path, folder: Path, etcd: str, peer: str, port: str, config: Path
) -> dict[str, list[str]]:
    program = shutil.which("etcd")
    assert program is not None, "etcd is not installed (etcd-server)"
    api, manager, scheduler = (str(place / name) for name in _CONTROL)
    certificate, key = str(folder / "api.crt"), str(folder / "api.key")
    return {
        "etcd": [
            program, "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync",
            "--listen-client-urls", f"http://{etcd}", "--advertise-client-urls", f"http://{etcd}",
            "--listen-peer-urls", f"http://{peer}",
            "--initial-advertise-peer-urls", f"http://{peer}",
            "--initial-cluster", f"default=http://{peer}",
        ],
        "kube-apiserver": [
            api, f"--etcd-servers=http://{etcd}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={port}",
            f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}",
            f"--token-auth-file={folder / 'tokens.csv'}", "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={certificate}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
            "--allow-privileged=true", f"--cert-dir={folder / 'run'}",
        ],
        "kube-controller-manager": [
            manager, f"--kubeconfig={config}", f"--service-account-private-key-file={key}",
            f"--root-ca-file={certificate}", "--leader-elect=false", "--bind-address=127.0.0.1",
            "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400",
            # The nodes of the test renew no lease.
            "--node-monitor-grace-period=24h", "--use-service-account-credentials=false",
        ],
        "kube-scheduler": [
            scheduler, f"--kubeconfig={config}", "--leader-elect=false",
            "--bind-address=127.0.0.1", "--secure-port=0",
        ],
    }  # fmt: skip
