"""A template that is run: values are checked and put in binding, then all is submitted in one call,
which makes the run with its requests, or nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.templates.records import Template
from lading.core.errors import Forbidden
from lading.core.runs import attempts
from lading.core.secrets import needed_names, restored
from lading.core.templates.document import TemplateVersion, bind
from lading.core.templates.making import OWN

PRIORITY: Final = 500
SOURCE_KIND: Final = "template"
"""The `kind` of the source of a run that a template made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """How a template is run: the name of the run, "" for that of the template; the uuid of its
    project, "" for the caller's home; contents of secrets by name. `may_act`: containers may act on
    the server in the caller's name.
    """

    run: str = ""
    project: str = ""
    priority: int = PRIORITY
    reuse: bool = True
    secrets: Mapping[str, str] | None = None
    may_act: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun:
    """A run that was made: the uuid of its project, or of the request of a workflow's runner."""

    uuid: str
    name: str
    attempt: int
    requests: tuple[str, ...]


def secrets_of(version: TemplateVersion) -> list[str]:
    """The names of the secrets that whoever runs it has to give."""
    needed = [
        name
        for request in version.requests
        for name in needed_names(request.get("secrets_needed") or ())
    ]
    return list(dict.fromkeys(needed))


async def start(
    api: ApiClient,
    template: Template,
    version: TemplateVersion,
    values: Mapping[str, Any],
    options: StartOptions,
) -> StartedRun:
    """Run a version with values; those that are left out are the defaults. Raises Invalid,
    Forbidden for a version whose containers act in the caller's name without consent.
    """
    requests, checked = bind(version, values)
    if version.uses_api and not options.may_act:
        raise Forbidden(
            f"{template.name}: its containers get a token of yours and act in your name; run it "
            "with --allow-api if you trust who saved it"
        )
    name = options.run or template.name
    bodies = [_body(request, options) for request in requests]
    body: Record = {"container_requests": bodies, "select": ["uuid"]}
    if version.is_workflow or template.kind == "cwl":
        for each in bodies:
            each["name"] = name
            _choose_project(each, options.project)
    else:
        attempts.check_name(name)
        body["run"] = {
            "name": name,
            "params": checked,
            "source": {
                "kind": SOURCE_KIND,
                "template": template.name,
                "template_uuid": template.uuid,
                "version": version.number,
            },
            # The call may be repeated: it must not begin two attempts.
            "session": uuid.uuid4().hex,
            **({"project": options.project} if options.project else {}),
        }
    # A repeated call would submit the requests twice.
    answer: Any = await api.action("container_requests", None, "batch", body=body, repeat=False)
    uuids = tuple(str(item["uuid"]) for item in answer["items"])
    run: Record = answer.get("run") or {"uuid": uuids[0], "name": name, "attempt": 1}
    return StartedRun(
        uuid=str(run["uuid"]), name=str(run["name"]), attempt=int(run["attempt"]), requests=uuids
    )


def _body(request: Mapping[str, Any], options: StartOptions) -> dict[str, Any]:
    # Whoever wrote the template could else have the results in a project of their own.
    left_out = ("secrets_needed", *OWN)
    body = {name: value for name, value in request.items() if name not in left_out}
    needed = request.get("secrets_needed") or ()
    if needed:
        body["secret_mounts"] = restored(needed, options.secrets or {})
    return {
        **body,
        "state": "Committed",
        "priority": options.priority,
        "use_existing": options.reuse,
    }


def _choose_project(body: dict[str, Any], project: str) -> None:
    """Have a workflow's runner make its requests in a project."""
    if project:
        body["owner_uuid"] = project
        # The API refuses a request without a command, and says so.
        if command := body.get("command"):
            body["command"] = [command[0], f"--project-uuid={project}", *command[1:]]
