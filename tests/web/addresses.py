"""All addresses of the page, from its table of routes: a page that is added is tested without being
named, and a site whose every text attacks its readers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from lading.web.app import ROUTES
from lading.web.routes import PageRoute
from tests.web.browsing import PageSite

EVIL: Final = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e\"' {{7*7}}"
EVIL_NAME: Final = EVIL.replace("/", "")
"""Names of projects and collections have no slash."""
EVIL_RUN: Final = EVIL_NAME.replace("\u202e", "")
"""Names of runs have only characters that can be printed."""
_PARTS: Final = {"name": "page.css", "folder": "vendor", "secret": "0" * 64}
_GROUP: Final = re.compile(r"\(\?P<(\w+)>[^)]*\)")
_HARMLESS: Final = ("/ui/", "#", "?")
_CALLED: Final = ("href", "src", "action", "formaction", "data", "hx-get", "hx-post", "sse-connect")


def routes(method: str) -> list[PageRoute]:
    """The routes of a method."""
    return [one for one in ROUTES if one.method == method]


def takes_uuid(one: PageRoute) -> bool:
    """Whether a part of the address is a uuid."""
    return "uuid" in one.pattern.groupindex


def address(one: PageRoute, **parts: str) -> str:
    """An address of a route; parts that are not given are those of nothing in particular."""
    known = {**_PARTS, **parts}
    path = _GROUP.sub(lambda found: quote(known.get(found[1], "x")), one.pattern.pattern)
    return path.replace("\\", "")


@dataclass(frozen=True, slots=True)
class EvilSite:
    """Records of the admin whose every text attacks.

    `query`: parameters that lead each page to what it shows of them.
    """

    me: str
    uuids: list[str]
    query: str

    def addresses(self, one: PageRoute) -> Iterator[str]:
        """The addresses of a route, one for each record that it may be about."""
        if not takes_uuid(one):
            yield address(one)
            return
        for uuid in (*self.uuids, self.me):
            yield address(one, uuid=uuid)


def nothing_like(uuid: str) -> str:
    """A uuid of the same kind that no record has."""
    return uuid[:12] + "9" * 15


async def evil_site(here: PageSite) -> EvilSite:
    """Store them."""
    world, files = here.world, here.files
    me = await world.ok("GET", "users/current")
    names = {"first_name": EVIL, "last_name": EVIL, "prefs": {EVIL: EVIL}}
    await world.ok("PATCH", f"users/{me['uuid']}", names)
    group = {"name": EVIL_NAME, "description": EVIL, "properties": {EVIL: EVIL}}
    project = await world.ok("POST", "groups", {**group, "group_class": "project"})
    trashed = await world.ok("POST", "groups", {**group, "name": f"{EVIL_NAME} trashed",
                                                "group_class": "project"})  # fmt: skip
    await world.ok("POST", f"groups/{trashed['uuid']}/trash")
    name = f"a/{EVIL_NAME}.svg"
    about = {"name": EVIL_NAME, "description": EVIL, "properties": {EVIL: EVIL}}
    data = await files.collection({name: b"<svg onload='alert(1)'/>"}, **about)
    request = await world.submit(
        EVIL, name=EVIL, description=EVIL, environment={"EVIL": EVIL}, output_name=EVIL_NAME,
        properties={EVIL: EVIL}, output_properties={EVIL: EVIL},
    )  # fmt: skip
    container = request["container_uuid"]
    token = await world.lock(container)
    said = {"runtime_status": {"error": EVIL, "errorDetail": EVIL, "activity": EVIL}}
    await world.ok("PUT", f"containers/{container}", {"state": "Running", **said}, token=token)
    log = await files.collection({"stderr.txt": EVIL.encode(), f"{EVIL_NAME}.txt": EVIL.encode()})
    await world.finish(
        container, token, exit_code=3, output=await files.pdh(data), log=await files.pdh(log)
    )
    again = await world.submit(EVIL, "again", name=EVIL)
    for kind, text in (("docker_image_repo+tag", f"{EVIL}:1"), ("tag", EVIL)):
        link = {"link_class": kind, "name": text, "head_uuid": data, "tail_uuid": me["uuid"]}
        await world.ok("POST", "links", link)
    await world.ok("POST", "links", {"link_class": "permission", "name": "can_read",
                                     "head_uuid": project["uuid"],
                                     "tail_uuid": await _jane_like(here)})  # fmt: skip
    run = await _evil_run(here, data)
    hook = await world.ok("POST", "webhooks", {"name": EVIL, "url": "https://a.example/%3Cb%3E"})
    parameters = {"path": name, "file": "stderr.txt", "c": container, "with": again["uuid"],
                  "from": request["uuid"], "said": "x", "digest": "f" * 64,
                  "name": EVIL}  # fmt: skip
    return EvilSite(
        me=me["uuid"],
        uuids=[
            request["uuid"],
            again["uuid"],
            data,
            project["uuid"],
            container,
            trashed["uuid"],
            hook["uuid"],
            run,
            await _evil_template(here),
        ],
        query=urlencode(parameters),
    )


async def _evil_run(here: PageSite, output: str) -> str:
    """A run with a failed step and one with an output; its uuid."""
    world, files = here.world, here.files
    about = {"name": EVIL_RUN, "params": {EVIL: EVIL}, "source": {EVIL: EVIL}}
    run = await world.ok("POST", "groups/begin_run", about)
    log = await files.collection({"stderr.txt": EVIL.encode()})
    for exit_code in (0, 1):
        step = await world.submit(
            EVIL, str(exit_code), name=EVIL, owner_uuid=run["uuid"], use_existing=False,
            properties={"lading_step": EVIL, "lading_attempt": 1},
        )  # fmt: skip
        await world.run(
            step["container_uuid"], exit_code=exit_code,
            output=await files.pdh(output), log=await files.pdh(log),
        )  # fmt: skip
    end = {"outcome": "failed", "note": EVIL}
    await world.ok("POST", f"groups/{run['uuid']}/end_run", end)
    return str(run["uuid"])


async def _evil_template(here: PageSite) -> str:
    """A template with a form of all kinds of fields; its uuid."""
    request = {"name": EVIL, "command": [EVIL, EVIL], "container_image": EVIL}
    words = {"title": EVIL, "description": EVIL}
    properties = {
        "text": {"type": "string", "default": EVIL, **words},
        "choice": {"type": "string", "enum": [EVIL], "default": EVIL, **words},
        "number": {"type": "number", "default": 1, "minimum": 0, **words},
        "list": {"type": "array", "default": [EVIL], **words},
    }
    version = {"number": 1, "parameters": {"properties": properties}, "requests": [request],
               "bindings": {"text": [{"step": 0, "at": "command", "index": 1}]}, "note": EVIL,
               "origin": {"name": EVIL}}  # fmt: skip
    document = {"class": "LadingTemplate", "versions": [version, {**version, "number": 2}]}
    about = {"name": EVIL, "description": EVIL}
    definition = msgspec.json.encode(document).decode().replace("\u202e", "\\u202e")
    made = await here.world.ok("POST", "workflows", {**about, "definition": definition})
    return str(made["uuid"])


async def _jane_like(here: PageSite) -> str:
    """A user with an evil name, with whom the project is shared."""
    made = await here.world.ok("POST", "users", {"username": "evil", "email": "e@example.org",
                                                 "first_name": EVIL})  # fmt: skip
    return str(made["uuid"])


class Elements(HTMLParser):
    """Finds in a page what only an attacker would have put there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self._script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element of the page."""
        given = {name: value or "" for name, value in attrs}
        self._script = tag == "script"
        if tag == "script" and not given.get("src", "").startswith("/ui/static/"):
            self.faults.append(f"a script of its own: {attrs}")
        if tag in ("object", "embed", "base") or given.get("src") == "x":
            self.faults.append(f"{tag}: {attrs}")
        if tag == "iframe" and "allow-same-origin" in given.get("sandbox", "allow-same-origin"):
            # The browser's reader for PDF refuses sandboxes; the answer is PDF or no document.
            is_document = "sandbox" not in given and "/raw?" in given.get("src", "")
            if not is_document:
                self.faults.append(f"a frame with the rights of the page: {attrs}")
        for name, value in given.items():
            self._check(tag, name, value)

    def handle_data(self, data: str) -> None:
        """Text, also that of a script."""
        if self._script and data.strip():
            self.faults.append(f"a script in the page: {data[:80]}")
        self._script = False

    def _check(self, tag: str, name: str, value: str) -> None:
        if name.startswith(("on", "hx-on")) or name in ("style", "srcdoc", "hx-vals"):
            self.faults.append(f"{tag} has {name}={value[:80]}")
        if name in _CALLED and not value.startswith(_HARMLESS):
            self.faults.append(f"{tag} leads to {name}={value[:80]}")
