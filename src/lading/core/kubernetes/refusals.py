"""Refusals of the API server in plain words: rights, quotas, policies.

Source: docs/spec/kubernetes, sections Rights and Start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from lading.core.kubernetes.pod_states import shorten

RIGHTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "pods": ("create", "delete", "get", "list", "watch"),
        "secrets": ("create", "delete"),
    }
)
"""The verbs that the Role of a dispatcher has to allow, by resource."""
# The words of the authorizer: User "u" cannot create resource "pods" in API group "" in the ...
_NOT_ALLOWED = re.compile(r'cannot (\w+) resource "([\w/]+)"')
_QUOTA, _POD_SECURITY, _WEBHOOK = "exceeded quota", "violates PodSecurity", "admission webhook"


class RefusalKind(StrEnum):
    """Why the API server refuses a request with 403, or as its namespace is missing."""

    NAMESPACE = "namespace"
    RIGHT = "right"
    QUOTA = "quota"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal: its kind, and a sentence without its full stop."""

    kind: RefusalKind
    sentence: str


def explain_missing_namespace(message: str, *, namespace: str) -> Refusal:
    """Explain the 404 answer for a namespace that does not exist."""
    return Refusal(
        RefusalKind.NAMESPACE,
        f"namespace {namespace} does not exist; make it (kubectl create namespace {namespace}), or"
        f" name another one in Containers.Kubernetes.Namespace ({shorten(message)})",
    )


def missing_rules(missing: Iterable[tuple[str, str]]) -> str:
    """The rules that a Role lacks, as they stand in it, for pairs of verb and resource."""
    verbs = dict[str, list[str]]()
    for verb, resource in missing:
        verbs.setdefault(resource, []).append(verb)
    return ", ".join(
        f'{{apiGroups: [""], resources: [{resource}], verbs: [{", ".join(listed)}]}}'
        for resource, listed in verbs.items()
    )


def explain_refusal(message: str, *, verb: str, resource: str, namespace: str) -> Refusal:
    """The refusal (403) of a verb on a resource, from the message of the API server."""
    shortened = shorten(message)
    if _QUOTA in message:
        return Refusal(
            RefusalKind.QUOTA, f"the quota of namespace {namespace} is used up ({shortened})"
        )
    if _POD_SECURITY in message:
        return Refusal(
            RefusalKind.POLICY,
            f"namespace {namespace} forbids the security context of the Pods by Pod Security;"
            f" let it be of level privileged, or see Containers.Kubernetes.Isolation ({shortened})",
        )
    if _WEBHOOK in message or not (message == "" or _NOT_ALLOWED.search(message)):
        return Refusal(
            RefusalKind.POLICY,
            f"the cluster refuses to {verb} {resource} in {namespace} ({shortened})",
        )
    matched = _NOT_ALLOWED.search(message)
    if matched:
        verb, resource = matched[1], matched[2]
    return Refusal(
        RefusalKind.RIGHT,
        f"the dispatcher may not {verb} {resource} in namespace {namespace};"
        f" its Role lacks the verb {verb} for {resource}",
    )
