"""Makes the calls of the sweep, and notes what they showed or changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from lading.client.transport import Response
from tests.security.sweep.api_cases import Case, api_cases
from tests.security.sweep.exceptions import CHANGE, is_permitted
from tests.security.sweep.front_cases import (
    block_cases,
    file_cases,
    ga4gh_cases,
    page_cases,
    port_cases,
)
from tests.security.sweep.site import Caller, SweepSite, watch
from tests.security.sweep.victim import Victim

_FORM: Final = "application/x-www-form-urlencoded"
_REFUSED: Final = 400
_FAULT: Final = 500


def all_cases(victim: Victim) -> list[Case]:
    """The cases of all front ends; those that may change something come last."""
    found = [
        *api_cases(victim),
        *file_cases(victim),
        *block_cases(victim),
        *ga4gh_cases(victim),
        *port_cases(victim),
        *page_cases(victim),
    ]
    return sorted(found, key=_turn)


def writing_cases(victim: Victim) -> list[Case]:
    """The cases of the API on a record that may change it."""
    found = [one for one in api_cases(victim) if one.method not in _READING]
    return sorted((one for one in found if "{uuid}" in one.route), key=_turn)


def reading_cases(victim: Victim) -> list[Case]:
    """The cases that only read records."""
    found = [*api_cases(victim), *page_cases(victim)]
    return [one for one in found if one.method in _READING]


# A preview would find what the caller itself has had made.
_READING: Final = ("GET", "HEAD", "PROPFIND", "OPTIONS")


def _turn(case: Case) -> int:
    if case.method in _READING or case.route.endswith("/preview"):
        return 0
    return 2 if case.method == "DELETE" else 1


@dataclass(slots=True)
class Findings:
    """`faults` are what no exception permits, each once."""

    faults: dict[str, None] = field(default_factory=dict)

    def note(self, caller: str, case: Case, labels: Iterable[str]) -> None:
        """Note what a call has shown or changed."""
        for label in labels:
            if not is_permitted(caller, case.route, label):
                self.faults[f"{caller}: {case.route}: {label}"] = None


async def send(site: SweepSite, caller: Caller, case: Case) -> Response:
    """The answer to a case; in the page with the session of the caller."""
    if not case.in_page:
        return await site.call(case.method, case.path, caller.token, case.headers, case.body)
    browser = await site.browser(caller)
    if case.method == "GET":
        return await browser.get(case.path)
    token = site.form_tokens[caller.name]
    headers = {"sec-fetch-site": "same-origin", "content-type": _FORM, "x-form-token": token}
    body = case.body + f"&form_token={token}".encode()
    return await browser.send("POST", case.path, headers, body)


async def sweep(site: SweepSite, caller: Caller, cases: Iterable[Case]) -> Findings:
    """What a caller learns and changes by all cases."""
    findings, database = Findings(), watch(site)
    for case in cases:
        answer = await send(site, caller, case)
        shown = str(dict(answer.headers)).encode() + answer.body
        labels = site.canaries.find(shown, sent=case.sent)
        if answer.status >= _FAULT:
            labels.add(f"status {answer.status}")
        labels |= {f"{CHANGE}{row[0]}" for row in database.changes()}
        findings.note(caller.name, case, labels)
    return findings


_NAMED: Final = re.compile(r"zzzzz-([0-9a-z]{5})-[0-9a-z]{15}|\b[0-9a-f]{32}\b")
_ID: Final = re.compile(r"req-[0-9a-z]{20}|urn:uuid:[0-9a-f-]+|[0-9T:.-]{20,}Z?")


async def tells_apart(site: SweepSite, caller: Caller, case: Case) -> bool:
    """Whether the answer to a case differs from that to the same case about a thing that does not
    exist.
    """
    named = {
        match[0]: f"zzzzz-{match[1]}-0000000000nothing"[:27] if match[1] else "0" * 32
        for match in _NAMED.finditer(case.path + case.body.decode("latin-1"))
        if match[0] in site.canaries.names
    }
    if not named:
        return False
    path, body = case.path, case.body
    for name, twin in named.items():
        path, body = path.replace(name, twin), body.replace(name.encode(), twin.encode())
    other = replace(case, path=path, body=body)
    answers = [await send(site, caller, one) for one in (case, other)]
    texts = []
    for answer in answers:
        # The page repeats its address, and has a new token in each form. What is made has a uuid.
        told = not case.in_page and (answer.status >= _REFUSED or path != case.path)
        text = answer.body.decode("utf-8", "replace") if told else ""
        for name, twin in named.items():
            text = text.replace(name, twin)
        texts.append((answer.status, _ID.sub("", text)))
    return texts[0] != texts[1]
