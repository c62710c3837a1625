"""A real node of a real control plane on this machine: kubelet, containerd and runc, in a folder.

containerd and runc are built once from the modules that `requirements/kubernetes-node` pins, as
those of Debian 12 know no user namespaces of Pods; the CNI plugins are those of the machine. Pods
have a network of their own behind the bridge `BRIDGE`, on whose address the server listens.

The node says that it has `CPUS` CPUs, so that as many Pods run at a time: it reads a made-up list
of CPUs. One node at a time is on a machine. All that it makes outside of its folder is undone at
the end: processes, control groups, the bridge, kernel settings, links of logs. Its mounts are in
mount namespaces of its own, and end with its processes.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lading.testing.images import make_archive, make_layer
from tests.system.cluster import processes_naming
from tests.system.environments import ROOT, kept
from tests.system.kubernetes_control import KUBELET, ControlPlane, build_modules, programs

BRIDGE, ADDRESS = "lading-kube0", "10.244.77.1"
"""The bridge of the Pods, and the address of this machine on it."""
CPUS = 8
LABEL = {"lading.test/kubelet": "real"}
"""The label of the node, for selectors."""
_SUBNET = "10.244.77.0/24"
# Locally administered.
_BRIDGE_MAC = "0a:58:0a:f4:4d:01"
_PINS = ROOT / "requirements" / "kubernetes-node"
_RUNTIME = (
    "github.com/containerd/containerd/v2/cmd/containerd",
    "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    "github.com/containerd/containerd/v2/cmd/ctr",
    "github.com/opencontainers/runc",
)
_LOCK = Path("/run/lock/lading-kubelet.lock")
# Of the kubelet, in each hierarchy of control groups.
_GROUP = "lading-kubelet"
# Settings of the kernel that kubelet and bridge change.
_SETTINGS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
# Directories that the kubelet and CNI plugins make at fixed places.
_PLACES = tuple(
    Path(name)
    for name in ("/var/lib/cni", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods")
)
_PATIENCE = 120.0
_PAUSE = "localhost/pause:1"
# Process 1 of a Pod with a shared process namespace: it reaps, and ends with TERM.
_PAUSE_SOURCE = """
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { _exit(0); }
static void reap(int number) { while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) {
    struct sigaction ends = {.sa_handler = end}, reaps = {.sa_handler = reap};
    reaps.sa_flags = SA_NOCLDSTOP;
    sigaction(SIGTERM, &ends, 0); sigaction(SIGINT, &ends, 0); sigaction(SIGCHLD, &reaps, 0);
    for (;;) pause();
}
"""


def runtime() -> Path:
    """The directory of containerd and runc, built if need be. Needs Go, gcc and libseccomp-dev."""
    pins = b"".join((_PINS / name).read_bytes() for name in ("go.mod", "go.sum"))
    tags = ("-tags", "seccomp,no_btrfs,no_zfs,no_devmapper")
    return kept("kubernetes-node", pins, lambda place: build_modules(_PINS, place, _RUNTIME, *tags))


@dataclass
class KubeletNode:
    """The node `KUBELET` of a control plane. `namespaces`: a process in the mount namespace of
    each program.
    """

    folder: Path
    plane: ControlPlane
    namespaces: dict[str, int]
    commands: dict[str, list[str]] = field(repr=False)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, repr=False)

    def start(self, name: str) -> None:
        """Start a program that does not run."""
        path = f"{runtime()}:{os.environ['PATH']}:/usr/sbin:/sbin"
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [
                    "nsenter",
                    f"--mount=/proc/{self.namespaces[name]}/ns/mnt",
                    "--",
                    *self.commands[name],
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
                env=os.environ | {"PATH": path},
            )

    def end(self, name: str) -> None:
        """Kill a program, and wait for its end."""
        process = self.running.pop(name)
        process.kill()
        process.wait(30)

    def log(self, name: str) -> str:
        """The end of the log of a program."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    async def ctr(self, *arguments: str) -> str:
        """Output of ctr on the images and containers of the kubelet."""
        process = await asyncio.create_subprocess_exec(
            str(runtime() / "ctr"), "--address", str(self.folder / "run" / "c.sock"),
            "--namespace", "k8s.io", *arguments,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(_PATIENCE):
            said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()
        return said.decode()

    async def until_ready(self) -> None:
        """Wait until the control plane has the node as ready. Fails with the end of a log."""
        until = time.monotonic() + _PATIENCE
        while not await self._is_ready():
            for name, process in self.running.items():
                assert process.poll() is None, self.log(name)
            assert time.monotonic() < until, self.log("kubelet")
            await asyncio.sleep(0.2)

    async def _is_ready(self) -> bool:
        found = await self.plane.ask("GET", "/api/v1/nodes")
        return any(
            one["metadata"]["name"] == KUBELET and is_true(one, "Ready") for one in found["items"]
        )


def processor_seconds() -> float:
    """Processor time of all Pods of the node since it was made, those that are gone included."""
    for folder in _group_folders():
        for name, pattern, scale in (
            ("cpuacct.usage", r"()(\d+)", 1e9),
            ("cpu.stat", r"^(usage_usec) (\d+)", 1e6),
        ):
            path = folder / "kubepods" / name
            found = re.search(pattern, path.read_text(), re.MULTILINE) if path.exists() else None
            if found is not None:
                return int(found[2]) / scale
    raise AssertionError("the control group of the Pods does not say what they use")


def is_true(thing: dict[str, Any], kind: str) -> bool:
    """Whether an object has a condition."""
    conditions = thing.get("status", {}).get("conditions", [])
    return any((one["type"], one["status"]) == (kind, "True") for one in conditions)


@asynccontextmanager
async def running_kubelet(
    plane: ControlPlane, folder: Path, images: Sequence[Path]
) -> AsyncGenerator[KubeletNode]:
    """A node with these images (archives), until the end of the context. Needs root."""
    for each in (programs, runtime):
        await asyncio.to_thread(each)
    folder.mkdir(exist_ok=True)
    # Root of a user namespace has to reach the root file system of its Pod.
    for one in (folder.parent, folder):
        one.chmod(0o711)
    with ExitStack() as stack:
        stack.enter_context(alone())
        stack.enter_context(_same_settings())
        stack.enter_context(_same_places(folder))
        stack.enter_context(bridge())
        stack.enter_context(_groups())
        commands = _write_files(plane, folder)
        namespaces = stack.enter_context(_mount_namespaces(folder))
        node = KubeletNode(folder, plane, namespaces, commands)
        stack.callback(_end_all, node)
        node.start("containerd")
        await _until_there(folder / "run" / "c.sock", node)
        for archive in (await asyncio.to_thread(_pause_image, folder), *images):
            await node.ctr("images", "import", str(archive))
        node.start("kubelet")
        await node.until_ready()
        yield node


def _write_files(plane: ControlPlane, folder: Path) -> dict[str, list[str]]:
    """Write the configuration of both programs; their commands."""
    for name in ("run", "cni", "logs", "kubelet", "plugins"):
        (folder / name).mkdir(mode=0o711)
    socket = folder / "run" / "c.sock"
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(_network(folder)))
    (folder / "containerd.toml").write_text(
        _CONTAINERD.format(
            folder=folder, socket=socket, pause=_PAUSE, runc=runtime() / "runc", bins=_cni_plugins()
        )
    )
    (folder / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet_settings(folder, socket)))
    config = plane.kubeconfig("node", plane.node_token)
    return {
        "containerd": [str(runtime() / "containerd"), "--config", str(folder / "containerd.toml")],
        "kubelet": [
            str(programs() / "kubelet"), "--config", str(folder / "kubelet.yaml"),
            "--kubeconfig", str(config), "--root-dir", str(folder / "kubelet"),
            "--cert-dir", str(folder / "kubelet" / "pki"), "--hostname-override", KUBELET,
            "--node-ip", ADDRESS,
            "--node-labels", ",".join(f"{name}={value}" for name, value in LABEL.items()),
        ],
    }  # fmt: skip


_CONTAINERD = """version = 3
root = "{folder}/containerd"
state = "{folder}/run/state"
[grpc]
address = "{socket}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{bins}"]
conf_dir = "{folder}/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{runc}"
"""


def _kubelet_settings(folder: Path, socket: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": ADDRESS, "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": False}},
        "containerRuntimeEndpoint": f"unix://{socket}",
        "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{_GROUP}", "failCgroupV1": False,
        "failSwapOn": False, "oomScoreAdj": 0, "makeIPTablesUtilChains": False,
        "clusterDNS": [ADDRESS], "kubeAPIQPS": 200, "kubeAPIBurst": 400,
        "podLogsDir": str(folder / "logs"), "volumePluginDir": str(folder / "plugins"),
        # The disk is that of everything else on this machine.
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
    }  # fmt: skip


def _network(folder: Path) -> dict[str, Any]:
    bridge = {
        "type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipMasq": False,
        "ipam": {
            "type": "host-local", "dataDir": str(folder / "addresses"),
            "ranges": [[{"subnet": _SUBNET, "gateway": ADDRESS}]],
        },
    }  # fmt: skip
    return {"cniVersion": "0.4.0", "name": "lading-test", "plugins": [bridge]}


def _cni_plugins() -> Path:
    places = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
    found = next((one for one in places if (one / "bridge").exists()), None)
    assert found is not None, "there are no CNI plugins (containernetworking-plugins)"
    return found


def _pause_image(folder: Path) -> Path:
    """The archive of the image of a Pod's first process."""
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "pause"
        subprocess.run(
            ["gcc", "-Os", "-static", "-s", "-x", "c", "-o", str(program), "-"],
            input=_PAUSE_SOURCE.encode(), timeout=60, check=True,
        )  # fmt: skip
        layer = make_layer({"pause": program.read_bytes()})
    _, archive = make_archive([layer], {"Entrypoint": ["/pause"]}, name=_PAUSE)
    path = folder / "pause.tar"
    path.write_bytes(archive)
    return path


async def _until_there(path: Path, node: KubeletNode) -> None:
    until = time.monotonic() + _PATIENCE
    while not path.is_socket():
        assert node.running["containerd"].poll() is None, node.log("containerd")
        assert time.monotonic() < until, node.log("containerd")
        await asyncio.sleep(0.1)


# What is undone.


def _end_all(node: KubeletNode) -> None:
    """End both programs and all containers."""
    if "kubelet" in node.running:
        node.end("kubelet")
    # Those of Pods that were not deleted before; their shims see their end.
    _kill(lambda: {pid for group in _group_folders() for pid in _members(group)})
    if "containerd" in node.running:
        node.end("containerd")
    _kill(lambda: set(processes_naming(str(node.folder / "run"), "containerd-shim")))


def _kill(find: Any) -> None:
    until = time.monotonic() + _PATIENCE
    while pids := find():
        assert time.monotonic() < until, f"processes {sorted(pids)} cannot be ended"
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


@contextmanager
def alone() -> Iterator[None]:
    """Wait for the only node with a kubelet that a machine may have at a time."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _same_settings() -> Iterator[None]:
    paths = [Path("/proc/sys") / name for name in _SETTINGS]
    before = {path: path.read_text() for path in paths if path.exists()}
    try:
        yield
    finally:
        for path, value in before.items():
            if path.read_text() != value:
                path.write_text(value)


@contextmanager
def _same_places(folder: Path) -> Iterator[None]:
    before = {one: one.exists() for one in _PLACES}
    try:
        yield
    finally:
        for one in Path("/var/log/containers").glob("*"):
            if one.is_symlink() and str(one.readlink()).startswith(f"{folder}/"):
                one.unlink()
        for one, was_there in before.items():
            if not was_there:
                shutil.rmtree(one, ignore_errors=True)


@contextmanager
def bridge() -> Iterator[None]:
    """The bridge of the Pods, with its address, until the end of the context. Needs root."""

    def ip(*words: str, check: bool = True) -> None:
        subprocess.run(["ip", *words], check=check, capture_output=True, timeout=30)

    # One that a killed run left.
    ip("link", "delete", BRIDGE, check=False)
    # A bridge without an address of its own takes the lowest of its ports, so it would have another
    # one with each Pod that comes or goes, and Pods would send to the old one for up to a minute.
    ip("link", "add", BRIDGE, "address", _BRIDGE_MAC, "type", "bridge")
    try:
        ip("address", "add", f"{ADDRESS}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        yield
    finally:
        ip("link", "delete", BRIDGE)


@contextmanager
def _groups() -> Iterator[None]:
    for one in _group_folders():
        one.mkdir(exist_ok=True)
        if one.parent.name == "cpuset":
            for name in ("cpuset.cpus", "cpuset.mems"):
                (one / name).write_text((one.parent / name).read_text())
    try:
        yield
    finally:
        for one in _group_folders():
            for folder, _, _ in os.walk(one, topdown=False):
                with suppress(FileNotFoundError):
                    Path(folder).rmdir()


def _group_folders() -> list[Path]:
    """The directory of the kubelet in each hierarchy."""
    points = re.findall(r"^\S+ (\S+) cgroup2? ", Path("/proc/mounts").read_text(), re.MULTILINE)
    return [Path(point) / _GROUP for point in points]


def _members(group: Path) -> Iterator[int]:
    for folder, _, _ in os.walk(group):
        with suppress(OSError):
            yield from map(int, (Path(folder) / "cgroup.procs").read_text().split())


# The mounts of the kubelet reach containerd.
_SHARE = """
mount --bind "$0/kubelet" "$0/kubelet"
mount --make-shared "$0/kubelet"
echo
exec sleep infinity
"""
# Bound over the kernel's own directories, for the kubelet's count of CPUs alone: the kernel mounts
# no /sys in a user namespace where a part of it is hidden.
_BIND_CPUS = """
mount --bind "$0/system/node" /sys/devices/system/node
mount --bind "$0/system/cpu" /sys/devices/system/cpu
echo
exec sleep infinity
"""


@contextmanager
def _mount_namespaces(folder: Path) -> Iterator[dict[str, int]]:
    """Mount namespaces of both programs, by a process in each; this machine has `CPUS` CPUs in that
    of the kubelet.
    """
    _write_cpus(folder / "system")
    unshare = ["unshare", "--mount", "--propagation"]
    with _waiting([*unshare, "private", "sh", "-ec", _SHARE, str(folder)]) as outer:
        enter = ["nsenter", f"--mount=/proc/{outer}/ns/mnt"]
        copy = [*enter, *unshare, "unchanged", "sh", "-ec", _BIND_CPUS, str(folder)]
        with _waiting(copy) as inner:
            yield {"containerd": outer, "kubelet": inner}


@contextmanager
def _waiting(command: list[str]) -> Iterator[int]:
    """A process that has written a line."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n", "the mount namespace cannot be made"
        yield process.pid
    finally:
        process.kill()
        process.communicate(timeout=30)


def _write_cpus(system: Path) -> None:
    """Write a list of `CPUS` CPUs, as the kernel has it below /sys/devices/system."""
    node, cpus = system / "node" / "node0", system / "cpu"
    real = len(os.sched_getaffinity(0))
    for number in range(CPUS):
        for place in (node, cpus):
            # cpu0, cpu1, cpu00, cpu01 ...: CPUs whose numbers the kernel knows, each several times.
            name = f"cpu{'0' * (number // real)}{number % real}"
            topology = place / name / "topology"
            topology.mkdir(parents=True)
            (topology / "core_id").write_text(f"{number}\n")
            (topology / "physical_package_id").write_text("0\n")
    (node / "hugepages").mkdir()
    (node / "meminfo").write_text(Path("/sys/devices/system/node/node0/meminfo").read_text())
    (node / "distance").write_text("10\n")
    for name in ("online", "possible", "present"):
        (cpus / name).write_text(f"0-{real - 1}\n")
        (node.parent / name).write_text("0\n")
