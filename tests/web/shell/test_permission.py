"""The API is asked who may enter."""

from __future__ import annotations

from pathlib import Path

from tests.web.browsing import PageSite
from tests.web.shell.terminal_client import container


async def test_work_of_somebody_else_cannot_be_entered(here: PageSite, tmp_path: Path) -> None:
    jane, bob = await here.world.user("jane"), await here.world.user("bob")
    owner, other = await here.logged_in(jane), await here.logged_in(bob)
    async with container(here, tmp_path, token=jane) as (request, uuid, _):
        path = f"/ui/requests/{request}/shell/ticket"
        await owner.post(f"/ui/access/{request}", {"who": "bob", "can": "manage"})
        # The last to change a request does not become the user of its container.
        await here.world.ok("PUT", f"container_requests/{request}", {"priority": 7}, token=bob)
        assert (await owner.post(path)).status == 200
        answer = await other.post(path, hx_request="true")
        assert (answer.status, b"is not yours" in answer.body) == (403, True)
        # Asking is no session.
        found = await here.world.ok("GET", f"containers/{uuid}")
        assert not found["interactive_session_started"]
