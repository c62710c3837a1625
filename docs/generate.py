"""Writes the pages made from the code: `python -m docs.generate`; `--check` says whether they are
current.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import Metric

from docs import dashboards, diagrams
from lading.api.metrics import ServerMetrics
from lading.blobs.metrics import BlockMetrics
from lading.cli import manual
from lading.cli.main import cli
from lading.config import site
from lading.config.instance_types import InstanceTypeSettings
from lading.config.storage import VolumeSettings
from lading.core import errors
from lading.core.records import record_types, schema
from lading.core.resources import GIB, KIB, MIB
from lading.dispatch.fleets.cloud.metrics import CloudCounters
from lading.dispatch.metrics import DispatchMetrics
from lading.wiring.http_metrics import HttpMetrics

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
NOTE = "<!-- Written by `make docs`; edit the declarations, not this page. -->\n\n"


def configuration() -> str:
    """The reference of every configuration key."""
    lines = [
        NOTE + "# Configuration\n",
        (
            "`lading up` needs none. To change something, write `config.yml` (YAML) in the data "
            "directory: the keys below,"
        ),
        "nested as their names show. Sizes may be written as `64MiB`, times as `336h` or `90s`.\n",
        *_section(site.Config, ""),
        f"\n## Volumes\n\n{(VolumeSettings.__doc__ or '').splitlines()[0]}\n",
        *_section(VolumeSettings, "Volumes.<uuid>."),
        f"\n## InstanceTypes\n\n{(InstanceTypeSettings.__doc__ or '').splitlines()[0]}\n",
        *_section(InstanceTypeSettings, "InstanceTypes.<name>."),
    ]
    return "\n".join(lines) + "\n"


def _section(section: Any, prefix: str) -> Iterator[str]:
    inner = []
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    for one in dataclasses.fields(section):
        default = one.default_factory() if one.default is dataclasses.MISSING else one.default  # type: ignore[operator]
        if dataclasses.is_dataclass(default):
            inner.append((one.name, type(default)))
            continue
        value, meaning = _value(default, one.metadata["unit"]), one.metadata["doc"]
        yield f"| `{prefix}{one.name}` | {value} | {meaning} |"
    for name, kind in inner:
        yield f"\n## {name}\n\n{(kind.__doc__ or '').splitlines()[0]}\n"
        yield from _section(kind, f"{prefix}{name}.")


def _value(value: object, unit: str) -> str:
    if value in ("", [], {}):
        return ""
    if unit == "bytes" and isinstance(value, int) and value:
        for name, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
            if value % size == 0:
                return f"`{value // size}{name}`"
    if unit == "seconds":
        return f"`{value:.15g}s`"
    return f"`{value}`"


def states() -> str:
    """The state diagrams, from the transition tables."""
    by_dispatcher = "Kept by the dispatcher and the supervisor that hold its lock."
    by_daemon = "Kept by the daemon in the container."
    parts = (
        ("Container", f"A piece of work and what came of it. {by_dispatcher}", "container"),
        ("Container request", "A client's interest in the outcome of a computation.", "request"),
        ("Code of an HPC container", by_daemon, "hpc-code"),
        ("Results of an HPC container", by_daemon, "hpc-results"),
    )
    lines = [
        NOTE + "# States\n",
        "Drawn from the transition tables in `core`; every other change is refused.\n",
    ]
    lines += [
        f"## {title}\n\n{text}\n\n![{title}: states](pictures/states-{name}.svg)\n"
        for title, text, name in parts
    ]
    return "\n".join(lines)


def reference() -> str:
    """The reference of every record type, its attributes and calls."""
    lines = [
        NOTE + "# API reference\n",
        (
            "The Arvados v1 API below `/arvados/v1/`. "
            "One table of record types gives the routes, the discovery document"
        ),
        "at `/discovery/v1/apis/arvados/v1/rest` and OpenAPI at `/arvados/v1/openapi.json`.\n",
        *_BROWSERS,
    ]
    for kind in record_types.RECORDS:
        lines += [f"## {kind.plural}\n", f"{kind.doc}\n", "| call | what it does |", "|---|---|"]
        lines += [f"| `{one.method} {_path(kind, one)}` | {one.doc} |" for one in kind.actions]
        lines += ["", "| attribute | type | meaning |", "|---|---|---|"]
        lines += [
            f"| `{one.name}` | {one.type} | {one.doc} |" for one in kind.fields if not one.hidden
        ]
        lines.append("")
    return "\n".join(lines)


def refusals() -> str:
    """The reference of the statuses with which calls are refused."""
    lines = [
        NOTE + "# Errors\n",
        (
            "A refused call changes nothing. "
            'Its answer is `{"errors": ["one line (request id)"]}`: '
            "the thing, the fault,"
        ),
        (
            "and what to do about it. The request id is also in the header `X-Request-Id` and in "
            "the server's log.\n"
        ),
        "| status | name | when | send the same again? |",
        "|---|---|---|---|",
    ]
    kinds: list[type[errors.LadingError]] = [*errors.BY_STATUS.values(), errors.LadingError]
    kinds.sort(key=lambda one: one.status)
    lines += [
        f"| {one.status} | `{one.__name__}` | {_WHEN[one.__name__]} | {_again(one)} |"
        for one in kinds
    ]
    return "\n".join([*lines, "", *_ON_ERRORS]) + "\n"


def _again(kind: type[errors.LadingError]) -> str:
    if issubclass(kind, errors.RequestError):
        return "no, it is refused again"
    if issubclass(kind, errors.Conflict):
        return "look at the record first"
    if issubclass(kind, errors.Unavailable):
        return "yes, in a moment" if kind is errors.Unavailable else "once there is room"
    return "no: somebody has to look after the server"


_WHEN = {
    "Malformed": (
        "not JSON, not a manifest, a body or parameter that cannot be read, "
        "properties outside the vocabulary"
    ),
    "Unauthenticated": "no token, an unknown one, or one that has expired",
    "Forbidden": (
        "a valid token that may not do this: the scopes, the permissions, a frozen project"
    ),
    "NotFound": "it is not there, or this token may not read it: the two look the same",
    "MethodNotAllowed": "the path is known, the method is not",
    "Conflict": "somebody else was first; a live log has a gap",
    "Gone": "it existed, and does not any more",
    "TooLarge": "the body is larger than `API.MaxRequestSize`",
    "Invalid": (
        "understood and refused: a rule about the content, a state change, a name that is taken"
    ),
    "LadingError": "a fault of the server's own; its log has more",
    "Corrupt": "what is stored does not match its hash: it is never served",
    "Unavailable": "the database or a repository cannot answer now, or the call took too long",
    "Full": "a disk is full",
}
_ON_ERRORS = (
    (
        "The Arvados clients try 409, 500, 502 and 503 again by themselves, with growing pauses; "
        "nothing that stays wrong"
    ),
    (
        "is answered with 409 or 503. `lading` tries 503 again for a quarter of a minute, "
        "then says in one line what is"
    ),
    (
        "wrong and leaves with 1. A range that a log does not have is 416. "
        "OpenAPI at `/arvados/v1/openapi.json` lists the"
    ),
    "statuses of each call, and no call answers with another.",
)


_BROWSERS = (
    "## Browsers\n",
    (
        "A page of any origin may call the API, files and ports with "
        "`Authorization: Bearer TOKEN` (CORS). Credentials that a"
    ),
    (
        "browser adds by itself count only for pages of the server's own origin, "
        "for links that somebody follows, and for"
    ),
    (
        "programs, which send neither `Origin` nor `Sec-Fetch-Site`. "
        "For others the cookie `arvados_api_token` is ignored;"
    ),
    (
        "HTTP Basic, and a POST without `Bearer` that is not JSON, are refused with 403. "
        "CORS allows no credentials.\n"
    ),
    "## Events\n",
    (
        "`wss://HOST/websocket?api_token=TOKEN` tells of each change of a record that the user may "
        "read when it is told,"
    ),
    (
        "within the scopes of the token. Token and user are looked up for each event: "
        "a token that has ended or was taken"
    ),
    (
        "back, or a user who is switched off, ends the connection (4401). "
        "The old contents of a record that was moved"
    ),
    (
        "away (`old_attributes`, and all that is told late) are for those who can look into its "
        "former place; the deletion of a record"
    ),
    "is told to its owner and the readers of its project.\n",
)


def packages() -> str:
    """The packages, each with the docstring of its `__init__`."""
    lines = [
        NOTE + "# Packages\n",
        (
            "Contents of each package, by the docstring of its `__init__`. "
            "[Contributing](contributing.md) says where to"
        ),
        "start reading.\n",
    ]
    for path in sorted((SOURCE / "lading").rglob("__init__.py"), key=lambda one: one.parent.parts):
        if text := ast.get_docstring(ast.parse(path.read_text())):
            lines.append(f"## `{'.'.join(path.parent.relative_to(SOURCE).parts)}`\n")
            lines += [f"{_paragraph(one)}\n" for one in text.split("\n\n")]
    return "\n".join(lines).rstrip("\n") + "\n"


def _paragraph(text: str) -> str:
    """A paragraph of a docstring; a table of names and meanings keeps its columns."""
    return f"```\n{textwrap.dedent(text)}\n```" if re.search(r"\S {2,}\S", text) else text


def _path(kind: schema.RecordType, action: schema.RecordAction) -> str:
    member = "/{uuid}" if action.scope is schema.Scope.MEMBER else ""
    return (
        f"/{kind.plural}{member}"
        + (f"/{action.path}" if action.path else "")
        + ("/..." if action.has_subpath else "")
    )


def commands() -> str:
    """The reference of the command line."""
    lines = [
        NOTE + "# Commands\n",
        (
            "Output of `--help` for all commands. `man lading` shows it where Lading is installed, "
            "`lading man | man -l -` everywhere.\n"
        ),
    ]
    return "\n".join([*lines, manual.markdown(cli)])


def metrics() -> str:
    """The reference of the metrics."""
    server = ServerMetrics()
    HttpMetrics(server.registry)
    BlockMetrics(server.registry)
    lines = [
        NOTE + "# Metrics\n",
        (
            "In the text format of Prometheus; every address asks for `Authorization: Bearer` with "
            "`ManagementToken` of the\nconfiguration ([monitoring](monitoring.md)). The values of "
            "each label are bounded. Beside these each process\nhas the usual `process_*`: "
            "processor time, memory, open files and its start.\n"
        ),
        "## Server\n\n`/metrics` at the server's address, block store included.\n",
        *_metric_rows(server.registry.collect()),
        (
            "\n## Dispatcher\n\n`/metrics` at `Containers.MetricsAddress`, of each dispatcher of "
            "any fleet.\n"
        ),
        *_metric_rows(DispatchMetrics().registry.collect()),
        (
            "\n## Dispatcher of cloud VMs\n\n`/metrics` at "
            "`Containers.CloudVMs.ManagementAddress`. The names are those of Arvados.\n"
        ),
        *_metric_rows(CloudCounters().families()),
    ]
    return "\n".join(lines) + "\n"


def _metric_rows(families: Iterable[Metric]) -> Iterator[str]:
    yield "| metric | type | meaning |\n|---|---|---|"
    for one in sorted(families, key=lambda one: one.name):
        if not one.name.startswith("process_"):
            # The library takes counters with the names of Arvados for values without a type, and
            # adds the suffix to all others.
            kind = {"unknown": "counter"}.get(one.type, one.type)
            name = f"{one.name}_total" if one.type == "counter" else one.name
            yield f"| `{name}` | {kind} | {one.documentation} |"


def manual_page() -> str:
    """The manual page that the wheel installs."""
    return manual.page(list(manual.documented(cli)))


PAGES = {
    "api.md": reference, "commands.md": commands, "configuration.md": configuration,
    "errors.md": refusals, "lading.1": manual_page, "metrics.md": metrics, "packages.md": packages,
    "states.md": states,
    "../deploy/monitoring/dashboard.json": dashboards.site,
    "../deploy/monitoring/dashboard-cloud.json": dashboards.cloud,
    "pictures/states-container.svg": diagrams.container_diagram,
    "pictures/states-request.svg": diagrams.request_diagram,
    "pictures/states-hpc-code.svg": diagrams.hpc_code_diagram,
    "pictures/states-hpc-results.svg": diagrams.hpc_result_diagram,
}  # fmt: skip


def main() -> int:
    """Write the pages, or compare them; 1 when `--check` finds one out of date."""
    stale = []
    for name, make in PAGES.items():
        path, text = HERE / name, make()
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    if stale:
        print(f"out of date: {', '.join(stale)}; run 'make docs'", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
