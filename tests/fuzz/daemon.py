"""Calls generated from the OpenAPI document of the daemon of HPC containers, to a real one over
HTTPS.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from schemathesis import Case, GenerationMode
from schemathesis.core.result import Err
from schemathesis.openapi import from_dict

from lading.core.hpc.daemon_document import openapi
from tests.fuzz.document import judge, prepare, run_examples
from tests.hpc_daemon import DaemonAnswer, Rig

_MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


def try_daemon(rig: Rig, *, calls: int, number: int) -> tuple[list[str], Counter[int]]:
    """Make about so many calls, one in ten with a wrong authorization; what went wrong, and the
    statuses.
    """
    rig.code("sleep 0.05")
    faults: list[str] = []
    statuses: Counter[int] = Counter()

    def act(case: Case[Any]) -> None:
        count = sum(statuses.values())
        right = count % 10 != 9
        request, headers, body = prepare(case, rig.identity.authorization if right else "wrong")
        parts = urlsplit(str(request.url))
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        reply: DaemonAnswer = rig.call(str(request.method), target, body, headers)
        statuses[reply.status] += 1
        judge(case, request, reply, faults)
        if (reply.status == 401) == right:
            faults.append(f"authorization {right}, answered {reply.status}")

    operations = [
        one.ok() for one in from_dict(openapi("1")).get_all_operations() if not isinstance(one, Err)
    ]
    each = -(-calls // (2 * len(operations)))
    while sum(statuses.values()) < calls:
        before = sum(statuses.values())
        for operation in operations:
            for mode in _MODES:
                run_examples(
                    operation.as_strategy(generation_mode=mode), each, number + before, act
                )
        if sum(statuses.values()) == before:
            raise AssertionError("nothing can be generated from the document")
    return faults, statuses
