"""Kinds of the subjects of quotas."""

from __future__ import annotations

from pathlib import Path

from lading.client.api import ApiClient
from lading.client.quota_kinds import subject_kinds
from tests.webdav.site import site


async def test_projects_and_roles_are_told_apart(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        subjects = [
            (await here.world.ok("POST", "groups", {"group_class": kind, "name": kind}))["uuid"]
            for kind in ("project", "role")
        ]
        subjects += [
            f"{subjects[0][:5]}-tpzed-000000000000000",
            f"{subjects[0][:5]}-j7d0g-000000000000009",
        ]
        quotas = [{"subject_uuid": one} for one in subjects]
        api = ApiClient(here.transport, here.world.admin)
        kinds = ["project", "role", "user", "project or role"]
        assert await subject_kinds(api, quotas) == kinds
        # Of another user's project the kind is not known to everyone.
        jane = ApiClient(here.transport, await here.world.user("jane"))
        assert (await subject_kinds(jane, quotas))[0] == "project or role"
        assert await subject_kinds(jane, []) == []
