from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.kubernetes.refusals import (
    RIGHTS,
    RefusalKind,
    explain_missing_namespace,
    explain_refusal,
    missing_rules,
)


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (
            'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the'
            ' namespace "work"',
            RefusalKind.RIGHT,
            "its Role lacks the verb create for pods",
        ),
        ("", RefusalKind.RIGHT, "its Role lacks the verb watch for pods"),
        (
            'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5',
            RefusalKind.QUOTA,
            "the quota of namespace work is used up",
        ),
        (
            'pods "x" is forbidden: violates PodSecurity "baseline:latest": privileged',
            RefusalKind.POLICY,
            "Pod Security",
        ),
        (
            'admission webhook "policy" denied the request: no',
            RefusalKind.POLICY,
            "the cluster refuses to watch pods in work",
        ),
    ],
)
def test_a_refusal_is_told_with_its_remedy(said: str, kind: RefusalKind, words: str) -> None:
    found = explain_refusal(said, verb="watch", resource="pods", namespace="work")
    assert found.kind is kind
    assert words in found.sentence


@given(st.text(), st.sampled_from(sorted(RIGHTS)))
def test_any_message_gives_a_sentence(said: str, resource: str) -> None:
    found = explain_refusal(said, verb="get", resource=resource, namespace="n")
    assert found.sentence
    assert "\n" not in found.sentence
    assert not found.sentence.endswith(".")


def test_a_namespace_that_does_not_exist() -> None:
    refusal = explain_missing_namespace('namespaces "work" not found', namespace="work")
    assert refusal.kind is RefusalKind.NAMESPACE
    assert "kubectl create namespace work" in refusal.sentence
    assert refusal.sentence.endswith('(namespaces "work" not found)')


def test_missing_rules_are_those_of_a_role() -> None:
    assert missing_rules([("get", "pods"), ("list", "events"), ("watch", "pods")]) == (
        '{apiGroups: [""], resources: [pods], verbs: [get, watch]}, '
        '{apiGroups: [""], resources: [events], verbs: [list]}'
    )
