"""Every route of the server, called by others on the things of a user: nothing of them comes back,
and nothing of them changes.

The calls are made from the tables of routes (`tests/security/sweep`): a new route, parameter or
type of records that has no case fails. What others may see is listed in `sweep.exceptions`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from lading.api.routes import Routes
from lading.web.app import ROUTES
from tests.security.sweep.api_cases import ELSEWHERE, STREAM
from tests.security.sweep.driving import (
    all_cases,
    reading_cases,
    send,
    sweep,
    tells_apart,
    writing_cases,
)
from tests.security.sweep.exceptions import CHANGE, is_permitted
from tests.security.sweep.shared import readable, share
from tests.security.sweep.site import CALLERS, Caller, SweepSite, make_callers, sweep_site
from tests.security.sweep.streams import hear
from tests.security.sweep.victim import Victim, plant

pytestmark = pytest.mark.quick
_GONE = "this form of the call is no longer served"
UNANSWERED = {
    "GET /arvados/v1/connect/{uuid}/gateway_tunnel": _GONE,
    "GET /arvados/v1/connect/{uuid}/ssh": _GONE,
    "GET /arvados/v1/containers/{uuid}/gateway_tunnel": _GONE,
    "GET /arvados/v1/containers/{uuid}/ssh": _GONE,
    "GET /arvados/v1/containers/{uuid}/git_tree": "for supervisors of containers with git trees",
    "GET /arvados/v1/containers/{uuid}/auth": "for the dispatcher and the supervisor",
    "GET /ui/answers/{name}": "there is an answer only after a form",
    **{
        f"GET /ui/{name}/{{uuid}}": "it leads on to the page of a request"
        for name in ("processes", "container_requests", "containers", "all_processes")
    },
    "GET /ui/login/{secret}": "a link is good once",
    "GET /ui/openid_connect": "this site has no provider",
    "GET /ui/openid_connect/done": "this site has no provider",
    "GET /ui/projects": "it leads on",
    "GET /ui/static/{folder}/{name}": "nothing of a user",
}
"""Routes that read, and answer nobody here, with the reasons."""
TOLD_APART = {
    "POST /arvados/v1/users/merge": "the case has a token of the victim, which others do not have",
    "POST /ui/device": "the digest of a login is good once, so that the second call is refused",
}
"""Routes that tell a hidden thing from a missing one, with the reasons."""
NEVER_SHOWN = {
    "cancellation.filters": "stored to find the requests",
    "runs.workflow": "the content of a file, whose name no case has",
}
"""Canaries that no case that reads shows to anybody, with the reasons."""


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[SweepSite]:
    async with sweep_site(tmp_path) as made:
        yield made


async def _caller(site: SweepSite, victim: Victim, name: str) -> Caller:
    return (await make_callers(site, victim.scoped))[name]


@pytest.mark.attack(
    "calls each route of the server with the uuids, hashes and names of another user"
)
@pytest.mark.parametrize("name", CALLERS)
async def test_all_routes(site: SweepSite, name: str) -> None:
    victim = await plant(site)
    caller = await _caller(site, victim, name)
    assert not (await sweep(site, caller, all_cases(victim))).faults


@pytest.mark.attack("reads what is shared, to learn what is private around it or was before")
@pytest.mark.parametrize("name", ["stranger", "container with API"])
async def test_shared_things(site: SweepSite, name: str) -> None:
    victim = await plant(site)
    caller = await _caller(site, victim, name)
    await share(site, victim, site.world.tokens["stranger"])
    own = await readable(site, victim, caller.token)
    cases = [one for one in reading_cases(own) if one.headers != STREAM]
    assert not (await sweep(site, caller, cases)).faults


@pytest.mark.attack("changes what may only be read")
@pytest.mark.parametrize("name", ["stranger", "container with API"])
async def test_readable_things(site: SweepSite, name: str) -> None:
    victim = await plant(site)
    caller = await _caller(site, victim, name)
    given = await share(site, victim, site.world.tokens["stranger"])
    # Rows that name them are watched; the calls name them, so that answers may.
    site.canaries.hide(given.values(), "given")
    only = {plural: [uuid] for plural, uuid in given.items()}
    cases = writing_cases(replace(victim, uuids={**victim.uuids, **only}))
    about = [one for one in cases if any(uuid in one.path for uuid in given.values())]
    assert len(about) > 50
    faults = (await sweep(site, caller, about)).faults
    # Shells of drafts are refused for another reason.
    assert not [one for one in faults if CHANGE in one]


@pytest.mark.attack("tells from the answers which uuids and hashes of others exist")
async def test_hidden_things_are_as_missing_ones(site: SweepSite) -> None:
    victim = await plant(site)
    caller = await _caller(site, victim, "stranger")
    cases = [one for one in all_cases(victim) if one.method != "DELETE"]
    told = {one.route for one in cases if await tells_apart(site, caller, one)}
    assert told == TOLD_APART.keys()


@pytest.mark.attack("listens to the streams of events while another user works")
@pytest.mark.parametrize("name", CALLERS)
async def test_streams(site: SweepSite, name: str) -> None:
    victim = await plant(site)
    caller = await _caller(site, victim, name)
    heard = await hear(site, victim, caller)
    labels = site.canaries.find(heard)
    assert not {one for one in labels if not is_permitted(caller.name, "events", one)}
    # Not even that there was a change of the victim's own record.
    for name in ("subject", "object_uuid"):
        assert f'"{name}":"{victim.user_uuid}"'.encode() not in heard


@pytest.mark.attack("hopes that a new route is not looked at")
async def test_each_route_has_a_case(site: SweepSite) -> None:
    cases = {one.route for one in all_cases(await plant(site))}
    known = {f"{method} {path}" for method, path, _ in Routes().listed()}
    assert known - cases == set(ELSEWHERE)
    assert len([one for one in cases if " /ui/" in one]) >= len(ROUTES) - 3


@pytest.mark.attack("is refused for another reason than who calls, so that the sweep is in vain")
async def test_the_owner_is_answered(site: SweepSite) -> None:
    victim = await plant(site)
    auth = await site.world.ok(
        "GET", f"containers/{victim.container('running')}/auth", token=victim.dispatcher
    )
    answered: set[str] = set()
    shown: set[str] = set()
    cases = [one for one in reading_cases(victim) if one.headers != STREAM]
    for caller in (
        Caller("victim", victim.token),
        Caller("admin", site.world.admin),
        Caller("monitor", site.world.config.ManagementToken),
        Caller("container of the victim", f"v2/{auth['uuid']}/{auth['api_token']}"),
    ):
        for case in cases:
            answer = await send(site, caller, case)
            answered |= {case.route} if answer.status < 300 else set()
            shown |= site.canaries.texts(answer.body)
    assert {one.route for one in cases} - answered == UNANSWERED.keys()
    labels = site.canaries.labels
    assert {*labels.values()} - {labels.get(one) for one in shown} == NEVER_SHOWN.keys()
