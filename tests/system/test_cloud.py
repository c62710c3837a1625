"""Containers over VMs that come and go: EC2's protocol, real sshd, real containers; the dispatcher
is killed twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reality import need_program, need_root
from tests.system.cloud import TYPES, play, running_cloud

pytestmark = pytest.mark.system


async def test_containers_run_on_vms_while_the_dispatcher_dies_twice(tmp_path: Path) -> None:
    need_root()
    for program in ("sshd", "ip", "unshare", "nsenter", "crun"):
        need_program(program)
    with running_cloud(tmp_path, types=TYPES, MaxInstances=2) as cloud:
        await play(cloud, containers=6, seconds=2, limit=300)
        assert 1 <= cloud.ec2.most <= 2
        # What a dispatcher had not sent yet when it was killed is not told by the next: one more,
        # by one that lives.
        cloud.cluster.lading("run", "--image", "tools:1", "--no-reuse", "--", "true")
        cloud.cluster.decisions("decided to run")
