"""Page of quotas: limits with their use, and for admins forms that set and remove them.

Words and limits are those of `lading quota`: `core.policy.descriptions`, `core.policy.limit_texts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

from lading.client.api import Record
from lading.client.quota_kinds import subject_kinds
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, infix_of, is_uuid
from lading.core.policy import descriptions
from lading.core.policy.descriptions import UseLine
from lading.core.policy.limit_texts import read_limit
from lading.core.policy.quotas import Limit
from lading.web.keyset import key_of, page_after
from lading.web.visit import Visit

PLACE: Final = "/ui/quotas"
_KIND: Final = "quotas"
_PAGE: Final = 50
_FIELDS: Final = (
    (Limit.CONTAINERS, "Containers", "20"),
    (Limit.VCPUS, "VCPUs", "64"),
    (Limit.RAM, "RAM", "256GiB"),
    (Limit.GPUS, "GPUs", "4"),
    (Limit.QUEUED, "Queued requests", "1000"),
    (Limit.BYTES, "Stored bytes", "1TiB"),
    (Limit.MONEY, "Dollars a day, week or month", "200/month"),
    (Limit.BUDGET, "Dollars in all", "500"),
)
_SUBJECTS: Final = ("user", "project", "role", "request")


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A quota as the list shows it."""

    quota: Record
    kind: str
    lines: list[UseLine]


async def show(visit: Visit) -> Response:
    """The quotas that the reader sees."""
    quotas = await page_after(
        visit.api, _KIND, filters=[], select=(*descriptions.SHOWN, "created_at"),
        after=visit.query("after"), most=_PAGE + 1,
    )  # fmt: skip
    rows = quotas[:_PAGE]
    uses = await _uses(visit, [quota["uuid"] for quota in rows])
    kinds = await subject_kinds(visit.api, rows)
    return visit.page(
        "quotas.html",
        rows=[
            QuotaRow(
                quota,
                kind,
                descriptions.use_lines(quota, uses.get(quota["uuid"], {})),
            )
            for quota, kind in zip(rows, kinds, strict=True)
        ],
        older=f"{PLACE}?after={quote(key_of(rows[-1]))}" if len(quotas) > _PAGE else "",
        fields=_FIELDS,
        subjects=_SUBJECTS,
    )


async def set_quota(visit: Visit) -> Response:
    """Set limits of a subject; empty fields leave a limit as it is."""
    attributes: Record = {}
    for limit, _, _ in _FIELDS:
        text = visit.field(limit.value).strip()
        if text:
            attributes |= read_limit(limit, text)
    contact = visit.field("contact").strip()
    if contact:
        attributes["contact"] = contact
    if visit.field("stop"):
        attributes["stop"] = visit.field("stop") == "yes"
    uuid = await _find_subject(visit, visit.field("kind"), visit.field("subject").strip())
    found = await visit.api.list(_KIND, filters=[["subject_uuid", "=", uuid]], limit=1)
    if found:
        await visit.api.update(_KIND, found[0]["uuid"], attributes)
    elif attributes:
        await visit.api.create(_KIND, {**attributes, "subject_uuid": uuid})
    else:
        raise Invalid("no limit is given; fill in at least one")
    return visit.redirect(PLACE)


async def remove(visit: Visit) -> Response:
    """Remove a quota."""
    uuid = visit.parts["uuid"]
    if not is_uuid(uuid, Infix.QUOTA):
        raise NotFound("There is no such quota")
    await visit.api.delete(_KIND, uuid)
    return visit.redirect(PLACE)


async def _uses(visit: Visit, uuids: list[str]) -> dict[str, Record]:
    if not uuids:
        return {}
    answer: Any = await visit.api.request("GET", f"{_KIND}/uses", params={"uuids": uuids})
    return {str(item["uuid"]): item["use"] for item in answer["items"]}


async def _find_subject(visit: Visit, kind: str, subject: str) -> str:
    """The uuid of the subject that a form names. Raises Invalid, NotFound."""
    if kind not in _SUBJECTS:
        raise Invalid(f"kind: must be one of {', '.join(_SUBJECTS)}")
    if is_uuid(subject) and infix_of(subject) in (Infix.USER, Infix.GROUP, Infix.REQUEST):
        return subject
    if not subject or kind == "request":
        raise Invalid("subject: give a name, or the uuid of a request")
    if kind == "user":
        field = "email" if "@" in subject else "username"
        matches = await visit.api.list("users", filters=[[field, "=", subject]], limit=2)
    else:
        filters: list[Any] = [["group_class", "=", kind], ["name", "=", subject]]
        matches = await visit.api.list("groups", filters=filters, limit=2)
    if not matches:
        raise NotFound(f"No {kind} is called so")
    if len(matches) > 1:
        raise Invalid(f"subject: several {kind}s are called so; give the uuid")
    return str(matches[0]["uuid"])
