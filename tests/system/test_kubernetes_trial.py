"""`lading kubernetes test` on a fake cluster whose Pods are real supervisors on this machine."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from signal import Signals

import pytest

from lading.core.kubernetes.pod_manifest import ASSIGNMENT, CERTIFICATE, DATA, MOUNT
from lading.dispatch.fleets.kubernetes.kubernetes_selftest import ClusterStep
from lading.testing.kubernetes import Launch
from lading.wiring.clustertest import ClusterTestOptions, main
from tests.kubernetes_clusters import in_a_thread
from tests.reality import need_program, need_root

pytestmark = pytest.mark.system
# Seconds; a supervisor whose server is gone waits for it far longer.
_GRACE = 5.0
FIT = 'runner {"said": "Lading"}\nengine {"said": "a container ran"}\napi {"said": "it serves"}\n'


def launching(folder: Path) -> Launch:
    """Runs supervisors with directories below `folder` in place of those of a Pod."""

    async def launch(files: Mapping[str, bytes]) -> int:
        (folder / CERTIFICATE).write_bytes(files[CERTIFICATE])
        text = files[ASSIGNMENT].decode().replace(DATA, str(folder / "data"))
        assignment = json.loads(text.replace(MOUNT, str(folder)))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "lading.supervisor",
            "--lock-directory",
            str(folder / "locks"),
            assignment["container_uuid"],
            stdin=asyncio.subprocess.PIPE,
        )
        try:
            await process.communicate(json.dumps(assignment).encode())
        except asyncio.CancelledError:
            # As the kubelet does: TERM, and KILL after the grace.
            process.send_signal(Signals.SIGTERM)
            try:
                async with asyncio.timeout(_GRACE):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
            raise
        return process.returncode or 0

    return launch


def test_a_request_runs_and_its_shell_and_port_answer(tmp_path: Path) -> None:
    need_root()
    need_program("crun")
    need_program("ssh")
    config, steps = tmp_path / "config.yml", list[ClusterStep]()
    config.write_text(
        f"Containers: {{Kubernetes: {{Image: x, Kubeconfig: {tmp_path / 'kubeconfig'},"
        " BeginTimeout: 120s, Nodes: {plain: {VCPUs: 2, RAM: 4GiB, Scratch: 10GiB}}}}"
    )
    with in_a_thread(tmp_path, launching(tmp_path)) as cluster:
        cluster.message = FIT
        main(ClusterTestOptions(config=config), tell=steps.append, doing=lambda _: None)
        assert [one for one in steps if not one.ok] == []
        assert steps[-1].name == "nothing left"
        assert {"request", "shell", "port"} <= {one.name for one in steps}
        assert not cluster.pods
