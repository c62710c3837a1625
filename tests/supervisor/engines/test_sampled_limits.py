"""Limits without a control group, in the bundle of a container and by samples."""

from __future__ import annotations

from lading.supervisor.engines.sampled_limits import with_limits
from lading.supervisor.limits.limit_ways import LimitWays


def test_limits_without_a_control_group_are_in_the_bundle() -> None:
    def bundle() -> dict[str, object]:
        return {
            "process": {"rlimits": []},
            "mounts": [
                {"destination": "/dev/shm", "type": "tmpfs", "options": ["nosuid"]},
                {"destination": "/dev/shm", "type": "bind", "options": []},
            ],
        }

    assert with_limits(bundle(), LimitWays()) == bundle()
    limited = with_limits(bundle(), LimitWays(ram=4096, processes=9))
    assert limited["process"] == {"rlimits": [{"type": "RLIMIT_NPROC", "hard": 9, "soft": 9}]}
    assert [one["options"] for one in limited["mounts"]] == [["nosuid", "size=4096"], []]
