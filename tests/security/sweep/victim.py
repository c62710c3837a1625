"""The things of the victim: one of each kind at least, with a canary in every text field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from lading.api.webhooks.worker import WebhookWorker
from lading.core.ids import all_users
from lading.core.image_names import IMAGE_HASH, REPO_TAG
from lading.core.records.access import DISPATCHER_SCOPES
from lading.core.records.record_types import RECORDS
from lading.core.records.schema import JSON, Record
from lading.core.templates.document import TemplateVersion, write_versions
from lading.core.webhooks.schedule import RetryRules
from lading.testing.world import WITH_API
from tests.api.webhooks.fake_sender import DOWN, FakeSender
from tests.security.sweep.site import SweepSite
from tests.tes.run_site import FORM, PARAMS, form

USER: Final = "victim"
RUNNER: Final = "arvados/jobs:3.2.1"
"""An image that all can read, and the victim has used."""
FAR: Final = "2036-01-01T00:00:00Z"
PUBLIC: Final = frozenset({"users", "keep_services", "computed_permissions"})
"""Types of records whose uuids are no secret."""


@dataclass(slots=True, kw_only=True)
class Victim:
    """`uuids` are those of the victim's records by type; `requests` those of the requests by what
    has become of them.
    """

    token: str
    scoped: str
    user_uuid: str
    project: str
    uuids: dict[str, list[str]] = field(default_factory=dict)
    hashes: list[str] = field(default_factory=list)
    requests: dict[str, Record] = field(default_factory=dict)
    run: str = ""
    task: str = ""
    cancellation: str = ""
    file: str = ""
    output: str = ""
    block: str = ""
    open_collection: str = ""
    dispatcher: str = ""

    def some(self, plural: str) -> list[str]:
        """Uuids of the records of a type: all requests and containers, else those that were made
        first and the latest.
        """
        found = self.uuids[plural]
        return found if plural.startswith("container") else found[-6:] + found[:-6][:3]

    def container(self, name: str) -> str:
        """The container of one of the requests."""
        return str(self.requests[name]["container_uuid"])


async def plant(site: SweepSite) -> Victim:
    """Make the things of the victim."""
    it = site.world
    token = await it.user(USER)
    user = await it.ok("GET", "users/current", token=token)
    made = await it.ok("POST", "groups", _texts(site, "groups", "name", "description"), token=token)
    await _plant_run(site, token)
    opened = await it.collection({"open.txt": b"open"}, token=token, name="open")
    narrow = await it.ok(
        "POST",
        "api_client_authorizations",
        {"scopes": [f"GET /arvados/v1/collections/{opened['uuid']}{end}" for end in ("", "/")]},
        token=token,
    )
    victim = Victim(
        token=token,
        scoped=f"v2/{narrow['uuid']}/{narrow['api_token']}",
        user_uuid=user["uuid"],
        project=made["uuid"],
        open_collection=opened["uuid"],
    )
    await _plant_dispatcher(site, victim)
    await _plant_user(site, victim)
    await _plant_data(site, victim)
    await _plant_requests(site, victim)
    await _plant_services(site, victim)
    await _plant_ga4gh(site, victim)
    await _note_uuids(site, victim)
    return victim


def _texts(site: SweepSite, kind: str, *names: str, **more: JSON) -> Record:
    """Attributes of a new record with canaries in them."""
    label = site.canaries.text
    given: Record = {name: label(f"{kind}.{name}") for name in names}
    if kind == "groups":
        given["group_class"] = "project"
    if kind in ("groups", "collections", "container_requests", "links"):
        given["properties"] = {
            label(f"{kind}.properties"): [label(f"{kind}.properties")],
        }
    return {**given, **more}


async def _plant_run(site: SweepSite, token: str) -> None:
    text = site.canaries.text
    begun = {
        "name": text("groups.name"),
        "params": {text("groups.properties"): text("groups.properties")},
        "source": {"script": text("groups.properties")},
        "session": text("groups.properties"),
    }
    run = await site.world.ok("POST", "groups/begin_run", begun, token=token)
    ended = {"outcome": "failed", "note": text("groups.properties")}
    await site.world.ok("POST", f"groups/{run['uuid']}/end_run", ended, token=token)


async def _plant_dispatcher(site: SweepSite, victim: Victim) -> None:
    made = await site.world.ok(
        "POST", "api_client_authorizations/create_system_auth", {"scopes": [*DISPATCHER_SCOPES]}
    )
    victim.dispatcher = f"v2/{made['uuid']}/{made['api_token']}"


async def _plant_user(site: SweepSite, victim: Victim) -> None:
    it, text = site.world, site.canaries.text
    changes = {
        "prefs": {"profile": {text("users.prefs"): text("users.prefs")}},
        "identity_url": f"https://id.example/{text('users.identity_url')}",
    }
    await it.ok("PUT", f"users/{victim.user_uuid}", changes)
    scope = f"GET /arvados/v1/collections/{text('api_client_authorizations.scopes')}"
    await it.ok("POST", "api_client_authorizations", {"scopes": [scope]}, token=victim.token)
    limits = {"containers": 1000, "budget": 1000.0, "bytes_stored": 1 << 40, "queued": 1000}
    for subject in (victim.user_uuid, victim.project):
        given = _texts(site, "quotas", "name", "contact", subject_uuid=subject, **limits)
        await it.ok("POST", "quotas", given)


async def _plant_data(site: SweepSite, victim: Victim) -> None:
    it, token, text = site.world, victim.token, site.canaries.text
    victim.file = f"{text('collections.manifest_text')}.html"
    content = text("collections.content").encode()
    files = {victim.file: content, f"d/{text('collections.manifest_text')}": b"more"}
    flat = {name.replace("d/", ""): data for name, data in files.items()}
    given = _texts(site, "collections", "name", "description", owner_uuid=victim.project)
    made = await site.collection(token, flat, **given)
    victim.block = made["manifest_text"].split(" ")[1].partition("+A")[0]
    # A past version, and one in the trash.
    changed = _texts(site, "collections", "name", "description", preserve_version=True)
    await it.ok("PUT", f"collections/{made['uuid']}", changed, token=token)
    gone = await site.collection(
        token, {text("collections.manifest_text"): b"gone"}, **_texts(site, "collections", "name")
    )
    await it.ok("POST", f"collections/{gone['uuid']}/trash", token=token)
    victim.hashes += [made["portable_data_hash"], gone["portable_data_hash"]]
    inner = _texts(site, "groups", "name", "description", owner_uuid=victim.project)
    trashed = await it.ok("POST", "groups", inner, token=token)
    await it.ok("POST", f"groups/{trashed['uuid']}/trash", token=token)
    chosen = _texts(site, "groups", "name", "description")
    filters = [["uuid", "is_a", "arvados#collection"], ["name", "=", text("groups.filters")]]
    chosen |= {"group_class": "filter", "properties": {"filters": filters}}
    await it.ok("POST", "groups", chosen, token=token)
    tag = _texts(site, "links", "name", link_class="tag", head_uuid=made["uuid"])
    await it.ok("POST", "links", tag, token=token)
    role = await it.ok("POST", "groups", {"name": "readers", "group_class": "role"})
    shared = {"link_class": "permission", "name": "can_read", "tail_uuid": role["uuid"]}
    shared |= {"head_uuid": made["uuid"], "properties": {"why": text("links.properties")}}
    await it.ok("POST", "links", shared, token=token)
    definition = f"name: {text('workflows.definition')}\n"
    flow = _texts(site, "workflows", "name", "description", definition=definition)
    await it.ok("POST", "workflows", {**flow, "owner_uuid": victim.project}, token=token)
    await _plant_template(site, token, victim.project)
    row = _texts(site, "logs", "summary", event_type="stderr", object_uuid=made["uuid"])
    row["properties"] = {"text": text("logs.properties")}
    await it.ok("POST", "logs", row, token=token)


async def _plant_template(site: SweepSite, token: str, project: str) -> None:
    text = site.canaries.text
    words = {"default": text("workflows.definition"), "title": text("workflows.definition")}
    version = TemplateVersion(
        number=1,
        requests=({"command": [text("workflows.definition")], "container_image": RUNNER},),
        properties={"k": {"type": "string", **words}},
        note=text("workflows.definition"),
    )
    template = _texts(site, "workflows", "name", "description", owner_uuid=project)
    template["definition"] = write_versions([version])
    await site.world.ok("POST", "workflows", template, token=token)


def _spec(site: SweepSite, label: str, **more: JSON) -> Record:
    text = site.canaries.text
    given = _texts(site, "container_requests", "name", "description", "output_name")
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1000},
        f"/{text('containers.mounts')}": {
            "kind": "text",
            "content": text("containers.mounts"),
        },
        "/json": {"kind": "json", "content": {"key": text("containers.mounts")}},
    }
    secret = {"/secret": {"kind": "text", "content": text("containers.secret_mounts")}}
    return {
        **given,
        "command": ["sh", "-c", f"echo {label} {text('containers.command')}"],
        "environment": {
            "DB_PASSWORD": text("containers.environment"),
            text("containers.environment"): "1",
        },
        "cwd": f"/{text('containers.cwd')}",
        "mounts": mounts,
        "secret_mounts": secret,
        "output_properties": {text("containers.output_properties"): "1"},
        "output_glob": [text("containers.output_glob")],
        "parallel_group": text("container_requests.parallel_group"),
        "filters": [["output_properties.key", "!=", text("container_requests.filters")]],
        **more,
    }


async def _plant_requests(site: SweepSite, victim: Victim) -> None:
    it, token = site.world, victim.token
    await _plant_runner(site)
    here = {"owner_uuid": victim.project}
    drafts: Mapping[str, Record] = {
        "draft": _spec(site, "draft", state="Uncommitted", **here),
        "queued": _spec(site, "queued", **here),
        "locked": _spec(site, "locked", **here),
        "running": _spec(
            site, "running", runtime_constraints=WITH_API, service=True, use_existing=False,
            published_ports={
                "8000": {
                    "access": "private",
                    "label": site.canaries.text("containers.published_ports"),
                    "initial_path": "",
                }
            },
            **here,
        ),
        "done": _spec(
            site, "done", secret_mounts={}, filters=None, container_image=RUNNER, **here
        ),
        "failed": _spec(site, "failed", container_count_max=1, **here),
        "withdrawn": _spec(site, "withdrawn", secret_mounts={}, **here),
    }  # fmt: skip
    for name, given in drafts.items():
        victim.requests[name] = await it.submit(token=token, **given)
    # Almost what the stranger asks for: the nearest earlier containers are compared with it.
    for name in ("simple", "simple_queued"):
        victim.requests[name] = await it.submit(
            *("sh", "-c", site.canaries.text("containers.command")),
            token=token,
            container_image=RUNNER,
            environment={"DB_PASSWORD": site.canaries.text("containers.environment")},
            **here,
        )
    waiting = _spec(site, "waiting", depends_on=[victim.requests["queued"]["uuid"]], **here)
    victim.requests["waiting"] = await it.submit(token=token, **waiting)
    await _run(site, victim)
    filters = [["name", "=", site.canaries.text("cancellation.filters")]]
    started = await it.ok(
        "POST", "container_requests/cancel_matching", {"filters": filters}, token=token
    )
    victim.cancellation = started["id"]
    site.canaries.hide([victim.cancellation], "cancellation.id")


async def _lock(site: SweepSite, victim: Victim, name: str) -> str:
    locked = await site.world.ok(
        "POST", f"containers/{victim.container(name)}/lock", token=victim.dispatcher
    )
    return str(locked["supervisor_token"])


async def _run(site: SweepSite, victim: Victim) -> None:
    it, text = site.world, site.canaries.text
    await _report(site, victim)
    await _lock(site, victim, "locked")
    supervisor = await _lock(site, victim, "running")
    running = f"containers/{victim.container('running')}"
    status = {
        name: text("containers.runtime_status")
        for name in ("activity", "warning", "warningDetail", "error", "errorDetail")
    }
    await it.ok(
        "PUT",
        running,
        {"state": "Running", "runtime_status": status, "gateway_address": "127.0.0.1:1999"},
        token=supervisor,
    )
    live = f"{running}/live/stderr.txt"
    await it.ok(
        "POST", live, params={"offset": 0}, raw=text("containers.live").encode(), token=supervisor
    )
    row = _texts(site, "logs", "summary", event_type="stderr")
    row |= {"object_uuid": victim.container("running")}
    row |= {"properties": {"text": text("logs.properties")}}
    await it.ok("POST", "logs", row, token=victim.token)
    for name in ("done", "failed", "withdrawn", "simple"):
        await _finish(site, victim, name)
    await it.ok(
        "POST",
        f"containers/{victim.container('withdrawn')}/withdraw",
        {"reason": text("containers.withdrawn_reason")},
        token=victim.token,
    )


async def _report(site: SweepSite, victim: Victim) -> None:
    """What the dispatcher of the victim reports about the containers."""
    it, text = site.world, site.canaries.text
    uuid = victim.container("queued")
    item = {"reason": "capacity", "sentence": text("dispatch.sentence")}
    event = {
        "container_uuid": uuid,
        "event_type": "dispatch",
        "text": text("dispatch.text"),
        "age": 1,
        "waited": text("dispatch.waited"),
    }
    await it.ok(
        "POST",
        "dispatch/statuses",
        {"items": {uuid: item}, "events": [event], "misfits": [uuid]},
        token=victim.dispatcher,
    )


async def _finish(site: SweepSite, victim: Victim, name: str) -> None:
    it, text = site.world, site.canaries.text
    uuid = victim.container(name)
    path, supervisor = f"containers/{uuid}", await _lock(site, victim, name)
    await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    auth = await it.ok("GET", f"{path}/auth", token=victim.dispatcher)
    own = f"v2/{auth['uuid']}/{auth['api_token']}"
    log = await site.collection(
        own, {"crunch-run.txt": text("log.content").encode()}, is_trashed=True
    )
    file = f"{text('output.manifest_text')}.html"
    victim.output = file if name == "done" else victim.output
    output = await site.collection(own, {file: text("output.content").encode()}, is_trashed=True)
    hashes = [log["portable_data_hash"], output["portable_data_hash"]]
    victim.hashes += hashes
    final: Record = {
        "state": "Complete",
        "exit_code": 1 if name == "failed" else 0,
        "log": hashes[0],
        "output": hashes[1],
        "cost": 1.0,
        "runtime_status": {"error": text("containers.runtime_status")},
    }
    await it.ok("PUT", path, final, token=supervisor)


async def _plant_services(site: SweepSite, victim: Victim) -> None:
    it, token, text = site.world, victim.token, site.canaries.text
    secret = _texts(
        site, "credentials", "name", "description", "external_id", "secret", "credential_class",
        expires_at=FAR,
    )  # fmt: skip
    await it.ok(
        "POST", "credentials", {**secret, "scopes": [text("credentials.scopes")]}, token=token
    )
    repository = _texts(site, "repositories", "name")
    repository["fetch_url"] = f"https://git.example/{text('repositories.fetch_url')}"
    await it.ok("POST", "repositories", {**repository, "owner_uuid": victim.project})
    machine = {"hostname": text("virtual_machines.hostname"), "owner_uuid": victim.project}
    await it.ok("POST", "virtual_machines", machine)
    key = _texts(site, "authorized_keys", "name", key_type="SSH")
    key["public_key"] = f"ssh-ed25519 {text('authorized_keys.public_key')} jane"
    await it.ok("POST", "authorized_keys", key, token=token)
    hook = _texts(site, "webhooks", "name", event_types=["*"], states=[])
    hook["url"] = f"https://hook.example/{text('webhooks.url')}"
    made = await it.ok("POST", "webhooks", hook, token=token)
    pause = {"reason": text("webhooks.paused_reason")}
    changed = _texts(site, "groups", "description")
    await it.ok("PUT", f"groups/{victim.project}", changed, token=token)
    worker = WebhookWorker(
        it.app.services,
        FakeSender(answer=lambda webhook, event: DOWN),
        rules=RetryRules(most_attempts=1),
        most=4,
        timeout=15,
        chance=lambda: 0.0,
    )
    await worker.look()
    await worker.settle()
    await it.ok("POST", f"webhooks/{made['uuid']}/pause", pause, token=token)


async def _plant_ga4gh(site: SweepSite, victim: Victim) -> None:
    text = site.canaries.text
    bearer = {"content-type": "application/json"}
    image = await site.world.ensure_image(victim.token)
    task = {
        "name": text("tasks.name"),
        "description": text("tasks.description"),
        "tags": {text("tasks.tags"): text("tasks.tags")},
        "executors": [{"image": image, "command": ["echo", text("tasks.command")]}],
        "inputs": [{"path": "/in", "content": text("tasks.content")}],
    }
    answer = await site.call(
        "POST", "/ga4gh/tes/v1/tasks", victim.token, bearer, msgspec.json.encode(task)
    )
    assert answer.status == 200, answer.body
    victim.task = msgspec.json.decode(answer.body)["id"]
    fields = {
        **PARAMS,
        "workflow_params": msgspec.json.encode({"key": text("runs.params")}).decode(),
        "tags": msgspec.json.encode({text("runs.tags"): text("runs.tags")}).decode(),
    }
    body = form(fields, {"main.cwl": text("runs.workflow").encode()})
    answer = await site.call(
        "POST", "/ga4gh/wes/v1/runs", victim.token, {"content-type": FORM}, body
    )
    assert answer.status == 200, answer.body
    victim.run = msgspec.json.decode(answer.body)["run_id"]


async def _plant_runner(site: SweepSite) -> None:
    """The image of the runner of workflows, which all users can read."""
    it = site.world
    place = await it.ok("POST", "groups", {"name": "images", "group_class": "project"})
    share = {"link_class": "permission", "name": "can_read", "head_uuid": place["uuid"]}
    await it.ok("POST", "links", {**share, "tail_uuid": all_users(it.cluster)})
    here = {"owner_uuid": place["uuid"]}
    made = await it.collection({f"sha256:{'1' * 64}.tar": b"the runner"}, **here)
    names = {REPO_TAG: RUNNER, IMAGE_HASH: f"sha256:{'1' * 64}"}
    for link_class, name in names.items():
        link = {"link_class": link_class, "name": name, "head_uuid": made["uuid"], **here}
        await it.ok("POST", "links", link)


async def _note_uuids(site: SweepSite, victim: Victim) -> None:
    """Note all uuids and hashes that nobody else may learn."""
    it = site.world
    params: dict[str, Any] = {
        "limit": 1000, "include_trash": True, "include_old_versions": True,
    }  # fmt: skip
    # Of these types the victim reads no other records than those that came of its own.
    derived = ("containers", "credentials", "logs")
    owners = {victim.user_uuid, victim.project}
    for kind in RECORDS:
        if not kind.stored:
            continue
        page = await it.ok("GET", kind.plural, params=params, token=victim.token)
        victim.uuids[kind.plural] = [
            one["uuid"]
            for one in page["items"]
            if kind.plural in derived or one.get("owner_uuid") in owners
        ]
        if kind.plural == "logs":
            own = {uuid for uuids in victim.uuids.values() for uuid in uuids}
            victim.uuids["logs"] = [
                one["uuid"] for one in page["items"] if one["object_uuid"] in own
            ]
    victim.uuids["users"] = [victim.user_uuid]
    public = {victim.open_collection}
    for plural, uuids in victim.uuids.items():
        if plural not in PUBLIC:
            site.canaries.hide([one for one in uuids if one not in public], f"{plural}.uuid")
    site.canaries.hide([one.partition("+")[0] for one in victim.hashes], "portable_data_hash")
