"""lading kubernetes test, on a fake cluster in another thread."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lading.cli.main import cli
from lading.testing.kubernetes import FakeCluster
from tests.kubernetes_clusters import in_a_thread

NODES = "Nodes: {plain: {VCPUs: 2, RAM: 4GiB, Scratch: 10GiB}}"
FIT = 'runner {"said": "Lading 1"}\nengine {"said": "a container ran"}\n'


def run(path: Path, section: str, *arguments: str) -> Result:
    path.write_text(f"Containers: {{Kubernetes: {{{section}}}}}")
    return CliRunner().invoke(cli, ["kubernetes", "test", "--config", str(path), *arguments])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FakeCluster]:
    """A fit cluster; `tmp_path` has a kubeconfig for it."""
    with in_a_thread(tmp_path) as made:
        made.message = FIT
        yield made


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (NODES, "Kubernetes.Image: ''; name the image"),
        ("Image: x", "Kubernetes.Nodes: there are none"),
        ("Image: x, Nod: {}", "unknown key Containers.Kubernetes.Nod"),
        (f"Image: x, Kubeconfig: /gone, {NODES}", "/gone: cannot be read"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(tmp_path: Path, section: str, said: str) -> None:
    done = run(tmp_path / "c.yml", section)
    assert done.exit_code == 1
    assert said in done.output
    assert len(done.output.splitlines()) == 1


def test_a_fit_cluster_is_told_to_work(tmp_path: Path, cluster: FakeCluster) -> None:
    section = f"Image: x, Kubeconfig: {tmp_path / 'kubeconfig'}, {NODES}"
    done = run(tmp_path / "c.yml", section, "--no-server")
    assert done.exit_code == 0, done.output
    assert "This configuration works." in done.output
    assert "a container ran" in done.output
    assert not cluster.pods


def test_a_missing_right_is_named_for_people_and_programs(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    cluster.rights.remove(("watch", "pods"))
    section = f"Image: x, Kubeconfig: {tmp_path / 'kubeconfig'}, {NODES}"
    done = run(tmp_path / "c.yml", section, "--no-server")
    assert done.exit_code == 1
    assert "lacks: watch pods" in done.output
    assert "to mend: bind the Role" in done.output
    found = json.loads(run(tmp_path / "c.yml", section, "--no-server", "--json").stdout)
    assert (found["ok"], found["interrupted"]) == (False, False)
    assert [one["name"] for one in found["steps"] if not one["ok"]] == ["rights"]


def test_a_kind_of_node_that_is_not_there_is_refused(tmp_path: Path, cluster: FakeCluster) -> None:
    section = f"Image: x, Kubeconfig: {tmp_path / 'kubeconfig'}, {NODES}"
    done = run(tmp_path / "c.yml", section, "--no-server", "--node", "big")
    assert "--node big: there is no such kind of node; there are plain" in done.output
