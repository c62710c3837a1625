"""Images from a real registry: Debian's docker-registry on loopback, with a login; a pull that is
killed goes on.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import signal
import subprocess
import tarfile
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lading.testing.images import make_archive, make_layer, tiny_image
from tests.client.images.fake_registry import INDEX, MANIFEST, index_of, manifest_of
from tests.client.images.images_on_disk import digest
from tests.reality import need_program, need_root
from tests.system.cluster import LADING, Cluster, free_address, running_cluster

pytestmark = pytest.mark.system
_LOGIN = "ann:secret"
# bcrypt of the password.
_HTPASSWD = "ann:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"


@dataclass(frozen=True)
class DockerRegistry:
    """A registry that runs, and the file with the login to it."""

    host: str
    login: Path

    def push(self, repository: str, tag: str, archive: bytes) -> tuple[bytes, int]:
        """Push the image of a docker-save archive, small layers packed; its manifest, and the bytes
        of its layers.
        """
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            contents = {
                member.name: tar.extractfile(member).read()  # type: ignore[union-attr]
                for member in tar
                if member.isfile()
            }
        (entry,) = json.loads(contents["manifest.json"])
        plain = [contents[name] for name in entry["Layers"]]
        layers = [
            gzip.compress(layer, 1, mtime=0) if len(layer) < 32 << 20 else layer for layer in plain
        ]
        config = contents[entry["Config"]]
        for blob in (config, *layers):
            place = self._call("POST", f"/v2/{repository}/blobs/uploads/")
            self._call("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest(blob)}", blob)
        manifest = manifest_of(*layers, config=config)
        self.put_manifest(repository, tag, manifest, MANIFEST)
        return manifest, sum(map(len, layers))

    def put_manifest(self, repository: str, tag: str, manifest: bytes, kind: str) -> None:
        """Name a manifest or an index."""
        self._call("PUT", f"/v2/{repository}/manifests/{tag}", manifest, {"Content-Type": kind})

    def _call(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> str:
        """The address that the answer leads to."""
        address = path if path.startswith("http") else f"http://{self.host}{path}"
        login = f"Basic {b64encode(_LOGIN.encode()).decode()}"
        own = {
            "Authorization": login,
            "Content-Type": "application/octet-stream",
            **(headers or {}),
        }
        asked = urllib.request.Request(address, data=body, method=method, headers=own)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            answer.read()
            return str(answer.headers.get("Location", ""))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerRegistry]:
    need_program("docker-registry")
    folder = tmp_path_factory.mktemp("registry")
    host = free_address()
    (folder / "htpasswd").write_text(_HTPASSWD)
    (folder / "registry.yml").write_text(
        json.dumps(
            {
                "version": "0.1",
                "log": {"level": "error"},
                "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
                "http": {"addr": host},
                "auth": {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}},
            }
        )
    )
    login = folder / "auth.json"
    login.write_text(json.dumps({"auths": {host: {"auth": b64encode(_LOGIN.encode()).decode()}}}))
    with (folder / "log").open("wb") as log:
        serving = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "registry.yml")], stdout=log, stderr=log
        )
    try:
        _wait_until_it_answers(host)
        yield DockerRegistry(host, login)
    finally:
        serving.terminate()
        serving.wait(20)


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, registry: DockerRegistry
) -> Iterator[Cluster]:
    need_root()
    folder = tmp_path_factory.mktemp("pull")
    with running_cluster(folder / "data") as running:
        running.environment |= {
            "XDG_CACHE_HOME": str(folder / "cache"),
            "REGISTRY_AUTH_FILE": str(registry.login),
        }
        yield running


@pytest.mark.quick
def test_a_container_runs_what_was_pulled_by_tag_and_by_digest(
    cluster: Cluster, registry: DockerRegistry
) -> None:
    manifest, _ = registry.push("bio/tools", "arch", tiny_image()[1])
    registry.put_manifest(
        "bio/tools", "1", index_of({"linux/amd64": manifest, "linux/arm64": manifest}), INDEX
    )
    platform = ("--platform", "linux/amd64")
    pulled = json.loads(
        cluster.lading(
            "image", "pull", "--json", f"{registry.host}/bio/tools:1", "--name", "t:1", *platform
        ).stdout
    )
    for name in ("t:1", f"{registry.host}/bio/tools:1", pulled["pinned"]):
        ran = cluster.lading("run", "--image", name, "--", "sh", "-c", "echo from the registry")
        assert "from the registry" in ran.stdout
    again = cluster.lading("image", "pull", pulled["pinned"], *platform)
    assert "already there" in again.stderr


def test_short_names_are_those_of_the_registry_that_stands_for_docker_hub(
    cluster: Cluster, registry: DockerRegistry
) -> None:
    registry.push("library/debian", "12", tiny_image()[1])
    registry.push("library/debian", "latest", tiny_image()[1])
    hub = ("--registry", registry.host)
    pulled = json.loads(cluster.lading("image", "pull", "--json", *hub, "debian:12").stdout)
    assert {f"{registry.host}/library/debian:12", "debian:12"} <= {*pulled["names"]}
    latest = json.loads(cluster.lading("image", "pull", "--json", *hub, "debian").stdout)
    assert (latest["fetched"], "debian:latest" in latest["names"]) == (0, True)
    listed = cluster.lading("image", "list").stdout
    assert "debian:12" in listed
    ran = cluster.lading("run", "--image", "debian:12", "--", "sh", "-c", "echo short")
    assert "short" in ran.stdout


def test_a_login_is_needed(cluster: Cluster, registry: DockerRegistry, tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text("{}")
    environment = cluster.environment | {
        "REGISTRY_AUTH_FILE": str(tmp_path / "auth.json"),
        "HOME": str(tmp_path),
    }
    command = [LADING, "image", "pull", f"{registry.host}/bio/tools:1"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert f"log in with 'docker login {registry.host}'" in done.stderr


def test_a_pull_that_is_killed_goes_on(cluster: Cluster, registry: DockerRegistry) -> None:
    layer = make_layer({"large": random.Random(4).randbytes(48 << 20)})
    _, size = registry.push("bio/large", "1", make_archive([layer])[1])
    command = [LADING, "image", "pull", f"{registry.host}/bio/large:1"]
    pulling = subprocess.Popen(command, env=cluster.environment)
    shelf = Path(cluster.environment["XDG_CACHE_HOME"]) / "lading" / "layers" / "sha256"
    until = time.monotonic() + 60
    while not any(path.stat().st_size > 1 << 20 for path in shelf.glob("*.part")):
        assert pulling.poll() is None
        assert time.monotonic() < until
        time.sleep(0.001)
    pulling.send_signal(signal.SIGKILL)
    assert pulling.wait() == -signal.SIGKILL
    done = json.loads(
        cluster.lading("image", "pull", "--json", f"{registry.host}/bio/large:1").stdout
    )
    assert done["is_new"]
    assert done["fetched"] <= size - (1 << 20), "what was here is not fetched again"


def _wait_until_it_answers(host: str) -> None:
    until = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(f"http://{host}/", timeout=5):
                return
        except OSError:
            assert time.monotonic() < until, "docker-registry did not start"
            time.sleep(0.05)
