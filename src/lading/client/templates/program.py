"""`lading.template`: a template in a program.

import lading

run = lading.template("align").run(k=21, reads="sample_8.fq")
print(run.wait())
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from lading.client.api import Record
from lading.client.run_records.reading import RunReference, read_run
from lading.client.runs import Run
from lading.client.site import Site, connect
from lading.client.templates import records, starting
from lading.client.templates.records import Template
from lading.client.templates.starting import StartOptions
from lading.core.errors import Invalid
from lading.core.runs.states import RunState
from lading.core.templates.document import TemplateVersion
from lading.core.templates.parameters import CWL_FILE, INPUT, check_value

_LIVE: Final = (RunState.WAITING, RunState.RUNNING)
_PAUSE: Final = 1.0
"""Seconds between two looks at a run."""


class TemplateRun:
    """A run that a template made. `uuid` is that of its project, or of the request of a workflow's
    runner.
    """

    def __init__(self, site: Site, started: starting.StartedRun) -> None:
        self.uuid, self.name, self.attempt = started.uuid, started.name, started.attempt
        self._site = site
        self._requests = started.requests

    @property
    def requests(self) -> list[Run]:
        """Its requests, in the order of the template."""
        return [self._site.request(each) for each in self._requests]

    @property
    def record(self) -> Record:
        """The run, as `lading runs show --json` has it, without its steps."""
        reference = RunReference(uuid=self.uuid, attempt=self.attempt)
        if reference.plural != "groups":
            reference = RunReference(uuid=self.uuid)
        return self._site.call(read_run(self._site.api, reference))

    def wait(self, *, pause: Callable[[float], None] = time.sleep) -> str:
        """Wait until the run ends. Returns its state: done, failed or cancelled."""
        while (state := str(self.record["state"])) in _LIVE:
            pause(_PAUSE)
        return state


class ProgramTemplate:
    """A template that a program runs; `schema` is the JSON Schema of its values."""

    def __init__(self, site: Site, template: Template, version: TemplateVersion) -> None:
        self._site, self._template, self._version = site, template, version
        self.uuid, self.name, self.version = template.uuid, template.name, version.number

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema 2020-12 of the values."""
        return self._version.schema()

    def run(
        self,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        name: str = "",
        project: str = "",
        priority: int = starting.PRIORITY,
        reuse: bool = True,
        secrets: Mapping[str, str] | None = None,
        allow_api: bool = False,
        **more: Any,
    ) -> TemplateRun:
        """Run it with these values, given as keywords or, for parameters with other names, as a
        mapping; those that are left out are the defaults.

        An input is a path here, or `HASH/PATH` of stored data. `name` is that of the run, by
        default that of the template; `project` the uuid of its owner. `secrets`: contents by name.
        `allow_api`: its containers may act on the server in your name. Raises Invalid before
        anything is submitted.
        """
        written = {**(values or {}), **more}
        self._check(written)
        stored = {
            key: self._stored(self._version.properties[key], value)
            for key, value in written.items()
        }
        options = StartOptions(
            run=name,
            project=project,
            priority=priority,
            reuse=reuse,
            secrets=dict(secrets or {}),
            may_act=allow_api,
        )
        work = starting.start(self._site.api, self._template, self._version, stored, options)
        return TemplateRun(self._site, self._site.call(work))

    def _check(self, values: Mapping[str, Any]) -> None:
        """Check all values before a file is stored. Raises Invalid."""
        for key, value in values.items():
            if key not in self._version.properties:
                known = ", ".join(self._version.properties) or "none"
                raise Invalid(f"{key[:60]}: is no parameter of {self.name}; it has: {known[:180]}")
            if not self._is_path(self._version.properties[key], value):
                check_value(key, value, self._version.properties[key])

    def _is_path(self, schema: Mapping[str, Any], value: object) -> bool:
        if schema.get("format") not in (INPUT, CWL_FILE) or not isinstance(value, str | Path):
            return False
        return isinstance(value, Path) or Path(value).exists()

    def _stored(self, schema: Mapping[str, Any], value: object) -> Any:
        """The value, a file of this machine stored."""
        if not self._is_path(schema, value):
            return value
        mount = self._site.put_mount(str(value))
        path = f"/{mount['path']}" if mount.get("path") else ""
        return f"{mount['portable_data_hash']}{path}"


def template(reference: str, *, site: Site | None = None) -> ProgramTemplate:
    """The template with this name or uuid, `align@2` for its second version, on a site, by default
    that of `lading.connect()`. Raises NotFound, Invalid for one that cannot be run.
    """
    own = site or connect()
    found, number = own.call(records.find_template(own.api, reference))
    return ProgramTemplate(own, found, found.version(number))
