"""The states of a container request, and the attributes that a client may write in each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class RequestState(StrEnum):
    """The states of a container request."""

    UNCOMMITTED = "Uncommitted"
    COMMITTED = "Committed"
    FINAL = "Final"


TRANSITIONS: Mapping[RequestState, tuple[RequestState, ...]] = MappingProxyType(
    {RequestState.UNCOMMITTED: (RequestState.COMMITTED,),
     RequestState.COMMITTED: (RequestState.FINAL,), RequestState.FINAL: ()}
)  # fmt: skip
INITIAL = (RequestState.UNCOMMITTED, RequestState.COMMITTED)
_ALWAYS = frozenset(RequestState)
_DRAFT = frozenset({RequestState.UNCOMMITTED})
_COMMITTED = frozenset({RequestState.COMMITTED})
_OPEN = frozenset({RequestState.UNCOMMITTED, RequestState.COMMITTED})
SERVER: frozenset[RequestState] = frozenset()
"""No state: only the server sets the attribute."""
PHASES: Mapping[str, frozenset[RequestState]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("name", "description", "properties", "state", "owner_uuid"), _ALWAYS,
        ),
        **dict.fromkeys(
            (
                "container_uuid", "container_count_max", "priority", "expires_at", "max_parallel",
            ),
            _OPEN,
        ),
        **dict.fromkeys(
            (
                "command", "container_image", "cwd", "environment", "mounts", "secret_mounts",
                "runtime_constraints", "scheduling_parameters", "output_path", "output_glob",
                "strict_output", "output_name", "output_ttl", "output_storage_classes",
                "output_properties", "use_existing", "match_resources", "only_reproduced",
                "parallel_group", "filters", "depends_on", "start_after",
                "requesting_container_uuid", "runtime_token", "service", "published_ports", "steps",
            ),
            _DRAFT,
        ),
        **dict.fromkeys(
            (
                "uuid", "container_count", "attempted_container_uuids", "retry_after", "log_uuid",
                "output_uuid", "cumulative_cost", "committed_by_uuid", "secrets_needed",
            ),
            SERVER,
        ),
    }
)  # fmt: skip
"""Stored states in which a client may write each attribute; a new record counts as Uncommitted."""
# Attributes that admins may set for tools that move records between clusters or repair them.
ADMIN_PHASES: Mapping[str, frozenset[RequestState]] = MappingProxyType(
    dict.fromkeys(("log_uuid", "output_uuid", "cumulative_cost"), _COMMITTED)
)
_FINAL = frozenset(name for name, states in PHASES.items() if RequestState.FINAL in states)
DESCRIPTIVE = _FINAL - {"state"}
SETTABLE = tuple(name for name, states in PHASES.items() if states)
