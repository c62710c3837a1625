"""A trace goes on in the supervisor of a Pod: on a fake cluster whose Pods are real supervisors."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.kubernetes_clusters import in_a_thread
from tests.reality import need_program, need_root
from tests.system.cluster import LADING, running_cluster
from tests.system.kubernetes_nodes import launching
from tests.system.trace_collector import collecting

pytestmark = pytest.mark.system
TRACE = "1af7651916cd43dd8448eb211c80319d"


@contextmanager
def dispatching(root: Path, tracing: object) -> Iterator[None]:
    """A dispatcher with the fleet, by the kubeconfig and the membership in `root`."""
    kind = {"VCPUs": 2, "RAM": "4GiB", "Scratch": "10GiB"}
    section = {"Image": "x", "Kubeconfig": f"{root}/kubeconfig", "Nodes": {"plain": kind}}
    config = {"Containers": {"Kubernetes": section}, "Tracing": tracing}
    (root / "dispatch.yml").write_text(yaml.safe_dump(config))
    command = [
        LADING, "dispatch", "--join", f"{root}/join", "--fleet", "kubernetes",
        "--data", f"{root}/d", "--config", f"{root}/dispatch.yml",
    ]  # fmt: skip
    with (root / "dispatcher.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def test_the_trace_of_a_request_has_the_spans_of_the_supervisor_in_its_pod(tmp_path: Path) -> None:
    need_root()
    need_program("crun")
    with collecting(TRACE) as collector, in_a_thread(tmp_path, launching(tmp_path)) as pods:
        tracing = {"Endpoint": collector.url, "Headers": {"Authorization": "hush"}}
        config = {"Containers": {"Dispatcher": "none"}, "Tracing": tracing}
        with running_cluster(tmp_path / "x", yaml.safe_dump(config)) as cluster:
            cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh")
            cluster.lading(
                "admin", "dispatcher-token", f"{tmp_path}/join", "--data", str(cluster.data)
            )
            with dispatching(tmp_path, tracing):
                cluster.environment["TRACEPARENT"] = f"00-{TRACE}-b7ad6b7169203331-01"
                command = ("run", "--image", "tools:1", "--", "sh", "-c", "echo hello")
                assert cluster.lading(*command).stdout == "hello\n"
                collector.wait_for(
                    {
                        ("lading-server", "POST container_requests.create"),
                        ("lading-dispatcher", "start supervisor"),
                        ("lading-supervisor", "supervise"),
                        ("lading-supervisor", "command"),
                    }
                )
        assert collector.authorizations == {"hush"}
        assert list(pods.ran.values()) == [1]
