from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lading.client.checks import CheckStep
from lading.core.errors import Invalid
from lading.wiring.trials.clustertest import ClusterTestOptions, choose_kinds, main
from tests.kubernetes_clusters import KIND, in_a_thread, kubernetes_settings

FIT = 'runner {"said": "Lading 1"}\nengine {"said": "a container ran"}\n'


def test_the_first_kind_of_node_is_tried_unless_others_are_named() -> None:
    other = replace(KIND, name="other")
    chosen = kubernetes_settings(kinds={"plain": KIND, "other": other})
    assert choose_kinds(chosen, ()) == [KIND]
    assert choose_kinds(chosen, ["other"]) == [other]
    assert choose_kinds(chosen, ["all"]) == [KIND, other]
    with pytest.raises(Invalid, match="--node big: .* there are plain, other"):
        choose_kinds(chosen, ["big"])


@pytest.mark.system
def test_a_server_is_there_for_the_time_of_the_test(tmp_path: Path) -> None:
    config, steps = tmp_path / "config.yml", list[CheckStep]()
    config.write_text(
        f"Containers: {{Kubernetes: {{Image: x, Kubeconfig: {tmp_path / 'kubeconfig'},"
        " Nodes: {plain: {VCPUs: 2, RAM: 4GiB, Scratch: 10GiB}}}}"
    )
    with in_a_thread(tmp_path) as cluster:
        # The check Pod does not reach the server, so that no request is run.
        cluster.message = FIT
        options = ClusterTestOptions(config=config)
        assert not main(options, tell=steps.append, doing=lambda _: None)
    told = {one.name: one.ok for one in steps}
    assert (told["server"], told["api"], told["nothing left"]) == (True, False, True)
    assert "request" not in told
    (pod,) = {one.finding for one in steps if one.name == "pod"}
    assert "ran on" in pod
