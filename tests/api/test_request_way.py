"""A plain request enters no feature that it does not name, from its creation to its end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lading
from lading.core.records.schema import JSON
from lading.testing.world import World

FEATURES = {
    "quotas": ("api/quotas.py", "api/spending.py", "core/policy/quotas.py"),
    "shares": ("api/fair_shares.py", "core/policy/fair_share.py", "store/fair_shares.py"),
    "learning": ("api/learning.py", "store/learned.py", "core/containers/attempts/learned.py"),
    "retries": ("core/containers/attempts/retry.py", "core/containers/attempts/retry_rules.py"),
    "ranges": ("core/containers/constraint_ranges.py",),
    "users of contents": ("store/containers/lineage.py",),
    "expectations": ("api/expectations.py",),
    "cancellations": ("api/background/",),
    "webhooks": ("api/webhooks/", "core/webhooks/", "store/webhooks.py"),
    "gangs": ("core/hpc/",),
    "steps": ("core/containers/steps.py",),
    "git trees": (
        "core/containers/mounting/git_trees.py",
        "api/resources/repositories.py",
        "api/mounts/git_cache.py",
    ),
    "live mounts": ("api/mounts/live_mounts.py",),
    "contents of mounts": ("api/mounts/mount_contents.py",),
    "spot": ("core/containers/attempts/spot.py",),
}
"""Files below the package that belong to a feature, in whole or as a folder."""


@contextmanager
def entered_files() -> Iterator[set[str]]:
    """The files below the package of which a function is called while the context lasts."""
    files: set[str] = set()

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        _, package, path = frame.f_code.co_filename.rpartition("/lading/")
        if package:
            files.add(path)

    before = sys.gettrace()
    sys.settrace(note)
    try:
        yield files
    finally:
        sys.settrace(before)


async def carry_out(it: World, **more: JSON) -> set[str]:
    """The files that a request enters until it is Final."""
    spec = await it.spec("echo", **more)
    with entered_files() as files:
        made = await it.ok("POST", "container_requests", spec)
        await it.run(made["container_uuid"])
    made = await it.ok("GET", f"container_requests/{made['uuid']}")
    assert made["state"] == "Final"
    return files


def features_of(files: set[str]) -> set[str]:
    """The features that were entered."""
    return {
        name
        for name, paths in FEATURES.items()
        if any(file.startswith(path) for path in paths for file in files)
    }


def test_the_files_of_features_are_there() -> None:
    package = Path(lading.__file__).parent
    assert [
        path for paths in FEATURES.values() for path in paths if not (package / path).exists()
    ] == []


async def test_a_plain_request_enters_no_feature(it: World) -> None:
    files = await carry_out(it)
    assert "api/completion.py" in files
    assert features_of(files) == set()


@pytest.mark.parametrize(
    ("feature", "named"),
    [
        ("gangs", {"scheduling_parameters": {"nodes": 2}}),
        ("ranges", {"runtime_constraints": {"vcpus": [1, 2], "ram": 1 << 20}}),
        ("spot", {"scheduling_parameters": {"deadline": 3600}}),
        ("steps", {"steps": [{"command": ["echo"], "container_image": "IMAGE"}]}),
    ],
)
async def test_a_request_enters_the_feature_that_it_names(
    it: World, feature: str, named: dict[str, Any]
) -> None:
    image = await it.ensure_image()
    for step in named.get("steps", ()):
        step["container_image"] = image
    assert features_of(await carry_out(it, **named)) == {feature}


async def test_a_site_with_a_quota_enters_quotas(it: World) -> None:
    subject = (await it.ok("GET", "users/current"))["uuid"]
    await it.ok("POST", "quotas", {"subject_uuid": subject, "vcpus": 5})
    assert features_of(await carry_out(it)) == {"quotas"}
