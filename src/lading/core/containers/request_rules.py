"""Rules for the attributes of a container request: types, bounds, and consistency.

* `stored` converts a client's value to the stored form: null means the default, nested defaults are
filled in, numbers sent as text become numbers, an empty string in a nullable attribute becomes
null.
* `validate` checks a whole record. A draft may lack resources only; committing needs everything.

See docs/spec/containers, section Request attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lading.core import values as attributes
from lading.core.containers import constraints
from lading.core.containers.attempts import spot
from lading.core.containers.constraints import Policy
from lading.core.containers.container import ContainerState
from lading.core.containers.mounting import mount_resolution, mounts
from lading.core.containers.steps import check_steps, validate_steps
from lading.core.data.globs import check_globs
from lading.core.data.placement import check_names
from lading.core.errors import Invalid
from lading.core.hpc.gang import KEYS as GANG_KEYS
from lading.core.hpc.gang import read_gang
from lading.core.ids import Infix, is_uuid
from lading.core.records.container_types import CONTAINERS
from lading.core.records.filters import check_filters
from lading.core.secrets import check_variables
from lading.core.values import Json, JsonObject, as_object, canonical, has_nul, humanised, printable

NULLABLE = frozenset(
    {
        "name",
        "description",
        "requesting_container_uuid",
        "container_uuid",
        "parallel_group",
        "command",
        "container_image",
        "output_path",
        "output_name",
        "priority",
        "runtime_token",
        "log_uuid",
        "output_uuid",
        "expires_at",
        "start_after",
        "filters",
    }
)
# Each dependency is looked up when the request is evaluated.
MAX_DEPENDENCIES = 1000


def _globs(name: str, value: Json) -> Json:
    """Patterns of files, not too many and not too long."""
    checked = attributes.nonempty_strings(name, value)
    try:
        check_globs([str(pattern) for pattern in checked] if isinstance(checked, list) else [])
    except Invalid as error:
        raise Invalid(f"Output glob {error.message}") from None
    return checked


def _ports(name: str, value: Json) -> Json:
    """Ports with their access, label and initial path (docs/spec/containers, section Services)."""
    for port, published in as_object(name, value).items():
        if not _is_port(port):
            raise Invalid(
                f"Published ports: {printable(port)!r} is not a port; "
                "write a number from 1 to 65535"
            )
        if not isinstance(published, dict) or published.keys() != {
            "access",
            "label",
            "initial_path",
        }:
            raise Invalid(
                f"Published ports: {port}: must have access, label and initial_path, "
                "and nothing else"
            )
        if published["access"] not in ("private", "public"):
            raise Invalid(f"Published ports: {port}: access must be 'private' or 'public'")
        if (
            not isinstance(published["label"], str)
            or not published["label"]
            or not isinstance(published["initial_path"], str)
        ):
            raise Invalid(
                f"Published ports: {port}: label must be a text that is not empty, "
                "initial_path a text"
            )
    return value


def _is_port(port: str) -> bool:
    return (
        port.isascii()
        and port.isdigit()
        and len(port) < 6
        and 0 < int(port) < 65536
        and port[0] != "0"
    )


def _filters(name: str, value: Json) -> Json:
    """Conditions in the form of containers.list; a single condition becomes a list of one."""
    try:
        if not isinstance(value, list) or not _is_triple(value):
            check_filters(value, CONTAINERS)
            return value
        check_filters([value], CONTAINERS)
    except Invalid as fault:
        raise Invalid(f"{humanised(name)}: {fault.message}") from None
    return [value]


def _is_triple(value: list[Json]) -> bool:
    first = value[0] if len(value) == 3 else None
    return isinstance(first, str) and not first.startswith("(")


def _dependencies(name: str, value: Json) -> Json:
    """Uuids of requests, each once."""
    listed = attributes.strings(name, value)
    uuids = [str(item) for item in listed] if isinstance(listed, list) else []
    wrong = next((uuid for uuid in uuids if not is_uuid(uuid, Infix.REQUEST)), None)
    if wrong is not None:
        raise Invalid(
            f"{humanised(name)}: {printable(wrong)!r} is not the uuid of a container request"
        )
    if len(uuids) > MAX_DEPENDENCIES:
        raise Invalid(f"{humanised(name)}: more than {MAX_DEPENDENCIES} requests")
    return list(dict.fromkeys(uuids))


CHECKS: Mapping[str, attributes.Check] = MappingProxyType(
    {
        "name": attributes.text,
        "description": attributes.text,
        "properties": attributes.json_object,
        "state": attributes.text,
        "owner_uuid": attributes.text,
        "container_uuid": attributes.text,
        "container_count_max": attributes.whole(1, 1 << 31),
        "priority": attributes.whole(0, 1000),
        "command": attributes.strings,
        "container_image": attributes.text,
        "cwd": attributes.text,
        "environment": attributes.json_object,
        "mounts": attributes.json_object,
        "secret_mounts": attributes.json_object,
        "runtime_constraints": attributes.json_object,
        "scheduling_parameters": attributes.json_object,
        "output_path": attributes.text,
        "output_glob": _globs,
        "strict_output": attributes.flag,
        "output_name": attributes.text,
        "output_ttl": attributes.whole(0, 1 << 40),
        "output_storage_classes": attributes.strings,
        "output_properties": attributes.json_object,
        "use_existing": attributes.flag,
        "match_resources": attributes.flag,
        "only_reproduced": attributes.flag,
        "parallel_group": attributes.text,
        "max_parallel": attributes.whole(0, 1 << 31),
        "runtime_token": attributes.text,
        "service": attributes.flag,
        "published_ports": _ports,
        "steps": check_steps,
        "log_uuid": attributes.text,
        "output_uuid": attributes.text,
        "cumulative_cost": attributes.between(0, 1e15),
        "requesting_container_uuid": attributes.text,
        "expires_at": attributes.moment,
        "start_after": attributes.moment,
        "filters": _filters,
        "depends_on": _dependencies,
    }
)
"""The check of every writable attribute."""


def _checked(name: str, value: Json) -> Json:
    if has_nul(value):
        raise Invalid(f"{humanised(name)} cannot contain NUL")
    return CHECKS[name](name, value)


def stored(name: str, value: Json, *, default: Json, policy: Policy) -> Json:
    """The value to store when a client sends `value`; null, and a blank `cwd`, stand for `default`.
    Raises Invalid.
    """
    if name in NULLABLE and value in (None, ""):
        return None
    if name not in CHECKS:
        return value
    if name == "cwd" and isinstance(value, str) and not value.strip():
        value = default
    checked = _checked(name, default if value is None else value)
    if name == "runtime_constraints":
        return constraints.fill(as_object(name, checked))
    if name == "scheduling_parameters":
        return constraints.fill_scheduling(as_object(name, checked))
    if name == "output_storage_classes":
        return checked or list(policy.default_storage_classes)
    return checked


def validate(record: Mapping[str, Json], *, fully: bool, committing: bool, policy: Policy) -> None:
    """Check a whole record. Raises Invalid naming the attribute.

    `fully`: the record is new or Committed, so its nested attributes are checked too; `committing`:
    it becomes Committed with this write.
    """
    for name in ("command", "container_image", "output_path"):
        # Without a command it is that of the image.
        if _is_blank(record[name]) and not (name == "command" and record[name] is None):
            raise Invalid(f"{humanised(name)} can't be blank")
    if record["service"] and record["use_existing"]:
        raise Invalid("Use existing cannot be true if 'service' is true")
    if record["max_parallel"] and not record["parallel_group"]:
        raise Invalid("Max parallel needs a parallel_group: the requests that take turns")
    if fully:
        _validate_nested(record, committing=committing, policy=policy)


def _is_blank(value: Json) -> bool:
    return not value or (isinstance(value, str) and not value.strip())


def with_sources(depends_on: list[str], mounted: JsonObject) -> JsonObject:
    """Change of a request whose mounts show outputs: it depends on the requests that make them too.
    Raises Invalid for too many.
    """
    known = set(depends_on)
    sources = dict.fromkeys(output.request_uuid for output in mount_resolution.outputs(mounted))
    more: list[Json] = [uuid for uuid in sources if uuid not in known]
    if len(depends_on) + len(more) > MAX_DEPENDENCIES:
        raise Invalid(
            f"Depends on: more than {MAX_DEPENDENCIES} requests, outputs in mounts included"
        )
    return {"depends_on": [*depends_on, *more]} if more else {}


def committed_scheduling(record: Mapping[str, Json], policy: Policy, *, now: str) -> JsonObject:
    """The scheduling parameters of a committed request, with the values that the cluster adds."""
    given = as_object("scheduling_parameters", record["scheduling_parameters"])
    scheduling = with_runner_rule(given, record["command"])
    if spot.DEADLINE in scheduling:
        scheduling = spot.committed(scheduling, now=now)
    if policy.always_preemptible and record["requesting_container_uuid"] is not None:
        return {**scheduling, "preemptible": True}
    return scheduling


def with_runner_rule(scheduling: JsonObject, command: Json) -> JsonObject:
    """Scheduling parameters at commit: the workflow runner's container supervises others."""
    if isinstance(command, list) and command[:1] == [constraints.RUNNER]:
        return {**scheduling, "supervisor": True}
    return scheduling


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The container that makes a request, and the highest priority of the requests for that
    container.
    """

    container_uuid: str
    state: ContainerState
    priority: int = 0


def check_parent(named: Json, parent: Parent | None) -> None:
    """Check that the token of a request acts for the container that makes it."""
    if named is None:
        return
    if parent is None or parent.container_uuid != named:
        raise Invalid(
            f"Requesting container uuid {named!r} is not a container that this token acts for"
        )
    if parent.state is not ContainerState.RUNNING:
        raise Invalid(f"Requesting container uuid {named!r} is {parent.state}, not Running")


def _validate_nested(record: Mapping[str, Json], *, committing: bool, policy: Policy) -> None:
    committed = record["state"] == "Committed"
    if committed and record["priority"] is None:
        raise Invalid("Priority cannot be nil")
    scheduling = as_object("scheduling_parameters", record["scheduling_parameters"])
    tables = [as_object(name, record[name]) for name in ("mounts", "secret_mounts")]
    nodes = 1 if scheduling.keys().isdisjoint(GANG_KEYS) else read_gang(scheduling).nodes
    if nodes > 1:
        if record["command"] is None:
            raise Invalid("Command can't be blank where several nodes are asked for")
        if record["output_path"] not in tables[0]:
            raise Invalid("Output path must be a mount target where several nodes are asked for")
    _check_nul("command", record["command"])
    attributes.environment("environment", record["environment"])
    needs = as_object("runtime_constraints", record["runtime_constraints"])
    mounts.validate(*tables, output_path=str(record["output_path"]), has_api=needs["API"] is True)
    if tables[1]:
        check_variables(as_object("environment", record["environment"]), tables[1])
    if record["steps"]:
        validate_steps(record, tables[0], nodes=nodes)
    constraints.check(needs, committed=committed)
    constraints.check_scheduling(scheduling, committing=committing, policy=policy)
    classes = record["output_storage_classes"]
    # A list of texts: the types of all attributes were checked.
    assert isinstance(classes, list)
    check_names("Output storage classes", classes)


def _check_nul(name: str, value: Json) -> None:
    if isinstance(value, list) and any("\0" in str(item) for item in value):
        raise Invalid(f"{humanised(name)} cannot contain NUL")


def brief(value: Json) -> str:
    """A value for a message, shortened."""
    text = canonical(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def written_by(
    user_uuid: str | None, values: JsonObject, *, last: str | None, foreign: Mapping[str, Json]
) -> JsonObject:
    """The values of a write by a user, with the user; `foreign` are further ones where another user
    was the `last` to change the request. Without a user or values, they stay as they are.
    """
    if not user_uuid or not values:
        return values
    return {**(foreign if user_uuid != last else {}), **values, "modified_by_user_uuid": user_uuid}
