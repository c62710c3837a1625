"""VMs on the page: a real browser, a real dispatcher, and EC2's protocol over machines of this
host; and nodes of a real Slurm.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from lading.core.scheduling.machines import MachineAction
from lading.dispatch.fleets.batch.programs import run_program
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_nodes import SlurmNodes
from tests.reality import need_program, need_root
from tests.system.cloud import TYPES, Cloud, running_cloud
from tests.system.page_visitor import PATIENCE, Visitor
from tests.system.slurm_cluster import running_slurm

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    need_root()
    for program in ("sshd", "ip", "unshare", "nsenter", "crun", "chromium"):
        need_program(program)
    with running_cloud(tmp_path_factory.mktemp("machines"), types=TYPES, MaxInstances=1) as made:
        made.start()
        yield made


@pytest.fixture
def reader(cloud: Cloud) -> Iterator[Visitor]:
    with sync_playwright() as started:
        browser: Browser = started.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        context = browser.new_context(ignore_https_errors=True)
        made = Visitor(cloud.cluster, context.new_page())
        made.log_in()
        yield made
        context.close()
        browser.close()


def _order(page: Page, word: str) -> None:
    page.get_by_role("button", name=re.compile(f"^{word} i-")).click()


def test_a_vm_is_held_and_killed(cloud: Cloud, reader: Visitor) -> None:
    said = cloud.cluster.lading("run", "--detach", "--name", "on a VM", "--image", "tools:1",
                                "--no-reuse", "--", "sleep", "20").stdout  # fmt: skip
    found = re.search(r"\w{5}-xvhdp-\w{15}", said)
    assert found
    page = reader.page
    reader.go("/ui/machines")
    # Without a reload: the VM is made, boots, and gets the container.
    expect(page.get_by_role("link", name="on a VM")).to_be_visible(timeout=3 * PATIENCE)
    expect(page.get_by_text(re.compile("small made"))).to_be_visible()
    page.get_by_label("Reason").fill("to look at it")
    _order(page, "Hold")
    expect(page.get_by_text("held")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_text("hold: to look at it")).to_be_visible()
    reader.check()
    cloud.cluster.lading("wait", found[0])
    # It is idle for longer than `TimeoutIdle` and stays.
    page.wait_for_timeout(6000)
    assert len(cloud.ec2.machines.list()) == 1
    _order(page, "Kill")
    page.get_by_role("button", name="Kill").click()
    expect(page.get_by_text("killed by an operator").first).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_role("button", name=re.compile("^Hold i-"))).to_be_hidden(timeout=PATIENCE)
    shown = json.loads(cloud.cluster.lading("request", "show", "--json", found[0]).stdout)
    assert shown["state"] == "Final"


async def test_nodes_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_root()
    for program in ("slurmctld", "slurmd", "munged"):
        need_program(program)
    with running_slurm(tmp_path / "slurm", nodes=2, vcpus=4, ram=4000) as slurm:
        for name, value in slurm.environment.items():
            monkeypatch.setenv(name, value)
        nodes = SlurmNodes(Slurm(run_program, timeout=30.0))
        await nodes.look()
        found = nodes.machines().machines
        assert len({one.id for one in found}) == len(found) >= 2
        assert {one.total.vcpus for one in found} == {4}
        assert all(one.used is not None for one in found)
        # As root, who may do so in Slurm.
        name = found[0].id
        await nodes.act(name, MachineAction.DRAIN, "a bad disk")
        drained = next(one for one in nodes.machines().machines if one.id == name)
        assert (drained.behavior, drained.actions) == ("drain", ("run",))
        assert drained.note == "lading: a bad disk"
        assert "lading: a bad disk" in slurm.run("scontrol", "show", "node", name)
        await nodes.act(name, MachineAction.RUN, "")
        resumed = next(one for one in nodes.machines().machines if one.id == name)
        assert (resumed.behavior, resumed.actions) == ("run", ("drain",))
