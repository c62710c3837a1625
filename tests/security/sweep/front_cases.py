"""The cases of the other front ends: files, blocks, TES and WES, the page, ports of containers.

Their routes come from the table of the page, from the OpenAPI documents of TES and WES, and from
the methods that the server of files names itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from lading.core.protocols.forwarding_claims import Purpose
from lading.core.tes.openapi import describe_tes
from lading.core.wes.openapi import describe_wes
from lading.tes import app as tes
from lading.tes import wes_app as wes
from lading.web.app import ROUTES
from lading.webdav.app import METHODS
from lading.webdav.file_request import PREFIXES
from tests.security.sweep.api_cases import Case, Uncovered
from tests.security.sweep.victim import RUNNER, Victim
from tests.tes.run_site import FORM, PARAMS, form

_JSON: Final = {"content-type": "application/json"}
_LOCK: Final = (
    b'<?xml version="1.0"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope>'
    b"<locktype><write/></locktype></lockinfo>"
)
_PATCH: Final = (
    b'<?xml version="1.0"?><propertyupdate xmlns="DAV:"><set><prop><displayname>forged'
    b"</displayname></prop></set></propertyupdate>"
)


def file_cases(victim: Victim) -> Iterator[Case]:
    """Every method on the files of every collection, by each form of address."""
    bodies = {"PUT": b"forged", "LOCK": _LOCK, "PROPPATCH": _PATCH}
    for uuid in [*victim.some("collections"), *victim.hashes[:2]]:
        for prefix in PREFIXES:
            # The forms of address lead to the same code: one is enough for each method.
            for method in METHODS.split(", ") if prefix == PREFIXES[0] else ("GET",):
                for name in ("", victim.file, "forged"):
                    where = f"{prefix}{uuid}/{name}"
                    to = f"/c={victim.open_collection}/copied"
                    headers = {"destination": to} if method in ("COPY", "MOVE") else {}
                    yield Case(
                        route=f"{method} {prefix}{{uuid}}/{{path}}",
                        method=method,
                        path=where,
                        body=bodies.get(method, b""),
                        headers={"depth": "1", **headers},
                    )
    for token in ("", "x" * 50):
        place = f"/c={victim.uuids['collections'][0]}/t={token}/{victim.file}"
        yield Case(route="GET /c={uuid}/t={token}/{path}", method="GET", path=place)


def block_cases(victim: Victim) -> Iterator[Case]:
    """Reads of the victim's blocks, and each administrative call."""
    name, item = victim.block[:32], {"locator": victim.block, "block_mtime": 0, "mount_uuid": ""}
    mount = f"zzzzz-nyw5e-{0:015}"
    listed = msgspec.json.encode([item])
    forged = f"{victim.block}+A{'0' * 40}@7fffffff"
    for method in ("GET", "HEAD"):
        yield from (
            Case(route=f"{method} /{{locator}}", method=method, path=f"/{locator}")
            for locator in (name, victim.block, forged)
        )
    yield Case(route="PUT /{hash}", method="PUT", path=f"/{name}", body=b"forged")
    yield Case(route="POST /", method="POST", path="/", body=b"forged")
    for path in ("/index", f"/index/{name[:3]}", "/mounts", f"/mounts/{mount}/blocks"):
        yield Case(route=f"GET {path}", method="GET", path=path)
    for path in (f"/mounts/{mount}/trash", f"/mounts/{mount}/space"):
        yield Case(route=f"GET {path}", method="GET", path=path)
    for verb in ("trash", "pull"):
        yield Case(route=f"PUT /{verb}", method="PUT", path=f"/{verb}", body=listed)
    yield Case(route="PUT /untrash", method="PUT", path=f"/untrash/{victim.block}")
    for method in ("TOUCH", "DELETE"):
        yield Case(route=f"{method} /{{locator}}", method=method, path=f"/{victim.block}")
    place = f"/mounts/{mount}/block/{name}"
    for method in ("GET", "HEAD", "PUT"):
        yield Case(route=f"{method} /mounts/block", method=method, path=place)
    for verb in ("touch", "discard", "restore", "delete", "quarantine"):
        yield Case(route=f"POST /mounts/block/{verb}", method="POST", path=f"{place}/{verb}")


def ga4gh_cases(victim: Victim) -> Iterator[Case]:
    """The operations of the OpenAPI documents of TES and WES."""
    for prefix, document in (
        (tes.PREFIX, describe_tes(tes.PREFIX)),
        (tes.LEGACY_PREFIX, describe_tes(tes.LEGACY_PREFIX)),
        (wes.PREFIX, describe_wes(wes.PREFIX)),
    ):
        paths = document["paths"]
        assert isinstance(paths, dict)
        for path, operations in paths.items():
            assert isinstance(operations, dict)
            for method in (one.upper() for one in operations):
                yield from _operation(victim, prefix, path, method)


def _operation(victim: Victim, prefix: str, path: str, method: str) -> Iterator[Case]:
    others = [one["uuid"] for one in victim.requests.values()]
    values = {"id": [victim.task, *others], "run_id": [victim.run, *others[:2]]}
    values["task_id"] = [victim.task, victim.run, *others[:2]]
    places = [path]
    for name in re.findall(r"\{(\w+)\}", path):
        if name not in values:
            raise Uncovered(f"{path}: {name} has no value in the sweep")
        places = [
            place.replace(f"{{{name}}}", quote(one)) for place in places for one in values[name]
        ]
    route = f"{method} {prefix}{path}"
    for place in places:
        if method == "POST" and "{" not in path:
            yield _creation(victim, route, prefix + place)
            continue
        for query in ("", "?view=FULL"):
            yield Case(route=route, method=method, path=f"{prefix}{place}{query}")


def _creation(victim: Victim, route: str, path: str) -> Case:
    if path.startswith(wes.PREFIX):
        body = form({**PARAMS, "workflow_url": f"keep:{victim.hashes[0]}/main.cwl"}, {})
        return Case(
            route=route, method="POST", path=path, body=body, headers={"content-type": FORM}
        )
    task = {
        "executors": [{"image": RUNNER, "command": ["true"]}],
        "inputs": [
            {"path": "/in", "url": f"keep:{victim.hashes[0]}/{victim.file}", "type": "FILE"},
        ],
    }
    return Case(
        route=route, method="POST", path=path, body=msgspec.json.encode(task), headers=_JSON
    )


# The types of records in the addresses of the page, by the part before them.
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "/ui/requests/": ("container_requests",),
    "/ui/processes/": ("container_requests", "containers"),
    "/ui/container_requests/": ("container_requests",),
    "/ui/containers/": ("containers",),
    "/ui/all_processes/": ("container_requests", "containers"),
    "/ui/collections/": ("collections",),
    "/ui/projects/": ("groups",),
    "/ui/runs/": ("groups", "container_requests"),
    "/ui/templates/": ("workflows",),
    "/ui/images/": ("collections",),
    "/ui/access/": ("collections", "groups", "container_requests"),
    "/ui/trash/": ("collections", "groups"),
    "/ui/tokens/": ("api_client_authorizations",),
    "/ui/webhooks/": ("webhooks",),
    "/ui/quotas/": ("quotas",),
    "/ui/admin/users/": ("users",),
}
_PARTS: Final = {
    "name": ["0" * 32, "page.css"],
    "folder": ["vendor"],
    "secret": ["0" * 64],
}
# They begin or end the login of the caller.
_APART: Final = frozenset({"POST /ui/logout", "POST /ui/login", "GET /ui/events"})


def page_cases(victim: Victim) -> Iterator[Case]:
    """The addresses of the page, with and without the victim's things as parameters."""
    asked = {
        "path": victim.file, "q": "cnry", "with": victim.requests["done"]["uuid"],
        "uuids": ",".join(victim.uuids["container_requests"]), "owner": victim.user_uuid,
        "from": victim.requests["done"]["uuid"], "c": victim.container("running"), "ended": "1",
        "logs": "1", "results": "1", "far": "1", "digest": "f" * 64,
    }  # fmt: skip
    fields = {
        **asked, "who": "stranger", "sure": "yes", "name": "forged", "role": victim.project,
        "uuid": victim.requests["queued"]["uuid"], "priority": "0", "reason": "forged",
        "subject": victim.user_uuid, "level": "can_manage", "kind": "can_manage", "budget": "0",
        "username": "forged", "active": "", "admin": "1", "days": "1", "all": "1", "stop": "1",
        "project": victim.project, "url": "https://forged.example/", "types": "*",
        "scopes": "all", "for": victim.user_uuid, "vcpus": "1", "ram": "1 GiB",
        "image": RUNNER, "command": "true", "inputs": "", "environment": "", "run": "forged",
        "digest": "f" * 64, "rights": "read",
        "version": "1", "consent": "yes", "value:k": "1",
    }  # fmt: skip
    for one in ROUTES:
        pattern = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", one.pattern.pattern)
        route = f"{one.method} {pattern}"
        if route in _APART:
            continue
        for place in _page_places(pattern, victim):
            if one.method == "GET":
                yield Case(route=route, method="GET", path=place, in_page=True)
                if "static" not in place and "login" not in place:
                    here = {"path": victim.output} if "requests" in place else {}
                    full = f"{place}?{urlencode({**asked, **here})}"
                    yield Case(route=route, method="GET", path=full, in_page=True)
                continue
            body = urlencode(fields).encode()
            yield Case(route=route, method="POST", path=place, body=body, in_page=True)


def _page_places(pattern: str, victim: Victim) -> list[str]:
    places = [pattern]
    for name in re.findall(r"\{(\w+)\}", pattern):
        if name == "uuid":
            kinds = [kinds for prefix, kinds in _KINDS.items() if pattern.startswith(prefix)]
            if not kinds:
                raise Uncovered(f"{pattern}: the sweep has no uuid for this page")
            values = [uuid for kind in kinds[0] for uuid in victim.some(kind)]
        elif name in _PARTS:
            values = _PARTS[name]
        else:
            raise Uncovered(f"{pattern}: {name} has no value in the sweep")
        places = [place.replace(f"{{{name}}}", one) for place in places for one in values]
    return places


def port_cases(victim: Victim) -> Iterator[Case]:
    """The published port of a container, by path and by host."""
    request = victim.requests["running"]
    for uuid in (request["uuid"], request["container_uuid"]):
        place = f"/services/{uuid}-8000/"
        yield Case(route="GET /services/{uuid}-{port}/", method="GET", path=place)
        host = {"host": f"{uuid}-8000.containers.example"}
        yield Case(route="GET {uuid}-{port}.DOMAIN/", method="GET", path="/", headers=host)
    claim = {"x-lading-claim": Purpose.SHELL}
    place = f"/services/{request['uuid']}-8000/"
    yield Case(route="GET /services/{uuid}-{port}/", method="GET", path=place, headers=claim)
