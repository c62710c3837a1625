"""`lading kubernetes test` on a fake cluster whose Pods are real supervisors on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.client.checks import CheckStep
from lading.wiring.trials.clustertest import ClusterTestOptions, main
from tests.kubernetes_clusters import in_a_thread
from tests.reality import need_program, need_root
from tests.system.kubernetes_nodes import FIT, launching

pytestmark = pytest.mark.system


@pytest.mark.quick
def test_on_a_closed_kind_a_request_runs_and_its_shell_and_port_answer(tmp_path: Path) -> None:
    need_root()
    need_program("crun")
    need_program("ssh")
    config, steps = tmp_path / "config.yml", list[CheckStep]()
    config.write_text(
        f"Containers: {{Kubernetes: {{Image: x, Kubeconfig: {tmp_path / 'kubeconfig'},"
        " BeginTimeout: 120s, Nodes: {plain:"
        " {VCPUs: 2, RAM: 4GiB, Scratch: 10GiB, Partitions: [p], Closed: true}}}}"
    )
    with in_a_thread(tmp_path, launching(tmp_path)) as cluster:
        cluster.message = FIT
        main(ClusterTestOptions(config=config), tell=steps.append, doing=lambda _: None)
        assert [one for one in steps if not one.ok] == []
        assert steps[-1].name == "nothing left"
        assert {"request", "shell", "port"} <= {one.name for one in steps}
        assert not cluster.pods
