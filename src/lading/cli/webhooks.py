"""`lading webhook`: events sent to receivers outside, by HTTP, to Slack, or by e-mail."""

from __future__ import annotations

from typing import Any, Final

import click

from lading.cli import display
from lading.cli.options import DURATION
from lading.cli.references import find_project
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.records.service_records import KEEP_FORMER
from lading.core.webhooks import descriptions
from lading.core.webhooks.schedule import Outcome
from lading.core.webhooks.subscription import WebhookFormat

_WEBHOOKS: Final = "webhooks"


@click.group()
def webhook() -> None:
    """Send events to a program, to Slack, or by e-mail.

    A webhook gets events of records that you can read, or of a project that you manage: in their
    order, signed, and again after a fault. WEBHOOK is a uuid or a name.
    """


@webhook.command()
@click.argument("url")
@click.option("--name", help="To find it by.")
@click.option(
    "--format",
    "form",
    type=click.Choice([str(form) for form in WebhookFormat]),
    default=None,
    help="Form of the messages (cloudevents; email for a mailto: URL).",
)
@click.option(
    "--on",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Types of events, `*` for any text (lading.container_request.*).",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Only changes to this state, such as Final.",
)
@click.option(
    "--for",
    "owner",
    metavar="PROJECT",
    help="It belongs to this project, whose managers see it; else to you.",
)
@click.option(
    "--in", "project", metavar="PROJECT", help="Only events of records in this project or below it."
)
@display.with_json
def create(
    url: str,
    name: str | None,
    form: str | None,
    types: tuple[str, ...],
    states: tuple[str, ...],
    owner: str | None,
    project: str | None,
) -> display.Output:
    """Send events to URL from now on; print the uuid and the secret of its signatures.

    The secret cannot be shown again.

    \b
    lading webhook create https://ci.example.org/lading --state Final
    lading webhook create https://hooks.slack.com/services/... --format slack --for thesis
    lading webhook create mailto:ada@example.org --state Final
    """
    chosen = form or ("email" if url.startswith("mailto:") else "cloudevents")
    attributes: Record = {"url": url, "format": chosen, "name": name, "states": list(states)}
    if types:
        attributes["event_types"] = list(types)

    async def action(session: CliSession) -> Record:
        for option, attribute in ((owner, "owner_uuid"), (project, "project_uuid")):
            if option is not None:
                attributes[attribute] = await find_project(session, option)
        return await session.api.create(_WEBHOOKS, attributes)

    record = with_session(action)
    yield {**_picked(record), "secret": record["secret"]}
    click.echo(record["uuid"])
    if chosen != WebhookFormat.EMAIL:
        click.echo(record["secret"])
    display.note(f"'lading webhook test {record['uuid']}' tries it; the secret is shown this once")


@webhook.command(name="list")
@display.with_json
def list_webhooks() -> display.Output:
    """List the webhooks that you can see."""
    webhooks = with_session(_all)
    yield [_picked(record) for record in webhooks]
    rows = (
        (
            record["uuid"],
            record["name"] or "",
            record["state"],
            record["format"],
            descriptions.events_text(record),
            record["url"],
        )
        for record in webhooks
    )
    display.table(("UUID", "NAME", "STATE", "FORMAT", "ON", "URL"), rows, optional=("FORMAT",))


@webhook.command()
@click.argument("which", metavar="WEBHOOK")
@display.with_json
def show(which: str) -> display.Output:
    """Show WEBHOOK. Its secret is never shown again."""
    record = with_session(lambda session: _find(session, which))
    yield _picked(record)
    display.fields(
        (
            ("uuid", record["uuid"]),
            ("name", record["name"] or ""),
            ("url", record["url"]),
            ("format", record["format"]),
            ("on", descriptions.events_text(record)),
            ("owner", record["owner_uuid"]),
            ("in", record["project_uuid"] or ""),
            ("state", record["state"]),
            ("reason", record["paused_reason"] or ""),
            ("former secret", _valid_until(record)),
            ("made", record["created_at"]),
        )
    )


@webhook.command()
@click.argument("which", metavar="WEBHOOK")
@display.json_option
def test(which: str) -> None:
    """Send a test event to WEBHOOK now, and say how that ended."""
    answer = _act(which, "test")
    if display.is_json_command():
        display.emit_json(answer)
    elif answer["outcome"] == Outcome.DELIVERED:
        display.note(descriptions.test_text(answer))
    if answer["outcome"] != Outcome.DELIVERED:
        raise Invalid(descriptions.test_text(answer))


@webhook.command()
@click.argument("which", metavar="WEBHOOK")
@click.option("--reason", help="Why.")
@display.with_json
def pause(which: str, reason: str | None) -> display.Output:
    """Send nothing to WEBHOOK any more; its events are kept as long as the log is."""
    found = _act(which, "pause", body={"reason": reason} if reason else None)
    yield from _tell(found, f"{found['uuid']} is paused")


@webhook.command()
@click.argument("which", metavar="WEBHOOK")
@click.option("--skip", is_flag=True, help="Leave out what happened while it was paused.")
@display.with_json
def resume(which: str, skip: bool) -> display.Output:
    """Send to WEBHOOK again, from the event where it was paused."""
    found = _act(which, "resume", body={"skip": True} if skip else None)
    yield from _tell(found, f"{found['uuid']} is active")


@webhook.command()
@click.argument("which", metavar="WEBHOOK")
@click.option(
    "--keep",
    type=DURATION,
    default=KEEP_FORMER,
    show_default="1d",
    help="Time for which the former secret is valid too; 0 ends it at once.",
)
@display.with_json
def rotate(which: str, keep: int) -> display.Output:
    """Make a new secret for WEBHOOK, and print it.

    It cannot be shown again. Until the end of the time, deliveries are signed with both secrets, so
    that a receiver with either takes them.
    """
    found = _act(which, "rotate", body={"keep": keep})
    yield {**_picked(found), "secret": found["secret"]}
    click.echo(found["secret"])
    if found["former_secret_until"]:
        display.note(f"the former secret is {_valid_until(found)}")


@webhook.command()
@click.argument("which", metavar="WEBHOOK")
@display.with_json
def delete(which: str) -> display.Output:
    """Delete WEBHOOK and its dead letters."""

    async def action(session: CliSession) -> Record:
        found = await _find(session, which)
        return await session.api.delete(_WEBHOOKS, found["uuid"])

    found = with_session(action)
    yield from _tell(found, f"deleted {found['uuid']}")


@webhook.command()
@click.argument("which", metavar="WEBHOOK")
@display.with_json
def deliveries(which: str) -> display.Output:
    """Show how far WEBHOOK is, its last fault, its dead letters (events that could not be
    delivered), and its latest attempts.
    """
    report = _act(which, "deliveries", method="GET")
    yield report
    display.fields(descriptions.delivery_facts(report))
    if report["dead"]:
        click.echo()
        rows = (
            (
                str(letter["log_id"]),
                letter["event_type"],
                letter["failed_at"][:19] + "Z",
                descriptions.letter_text(letter),
            )
            for letter in report["dead"]
        )
        display.table(("DEAD LETTER", "TYPE", "FAILED", "FAULT"), rows)
    if report["recent"]:
        click.echo()
        tried = (
            (
                attempt["tried_at"][:19] + "Z",
                str(attempt["log_id"]),
                attempt["event_type"],
                descriptions.attempt_text(attempt),
                attempt["fault"],
            )
            for attempt in report["recent"]
        )
        display.table(("ATTEMPT", "EVENT", "TYPE", "OUTCOME", "FAULT"), tried)


@webhook.command()
@click.argument("which", metavar="WEBHOOK")
@click.argument("letters", nargs=-1, type=int, metavar="[DEAD_LETTER]...")
@display.with_json
def redeliver(which: str, letters: tuple[int, ...]) -> display.Output:
    """Send dead letters of WEBHOOK again, by number; without numbers all of them."""
    answer = _act(which, "redeliver", body={"log_ids": list(letters)} if letters else None)
    yield answer
    display.note(descriptions.queued_text(answer["queued"]))


def _act(which: str, name: str, *, body: Any = None, method: str = "POST") -> Record:
    async def action(session: CliSession) -> Record:
        uuid = (await _find(session, which))["uuid"]
        api = session.api
        # Not repeated: a test that was answered late would be sent twice.
        answer: Any = await api.action(
            _WEBHOOKS, uuid, name, method=method, body=body, repeat=method == "GET"
        )
        found: Record = answer
        return found

    return with_session(action)


def _tell(record: Record, message: str) -> display.Output:
    yield _picked(record)
    display.note(message)


async def _all(session: CliSession) -> list[Record]:
    pages = session.api.pages(_WEBHOOKS, select=descriptions.SHOWN)
    return [record async for page in pages for record in page]


async def _find(session: CliSession, which: str) -> Record:
    """The webhook with a uuid or a name. Raises NotFound, Invalid when several have it."""
    if is_uuid(which, Infix.WEBHOOK):
        return await session.api.get(_WEBHOOKS, which)
    found = await session.api.list(_WEBHOOKS, filters=[["name", "=", which]], limit=2)
    if not found:
        raise NotFound(f"{which}: no such webhook; 'lading webhook list' shows yours")
    if len(found) > 1:
        raise Invalid(f"{which}: several webhooks are called so; give the uuid")
    return found[0]


def _valid_until(record: Record) -> str:
    until = record["former_secret_until"]
    return f"valid until {until[:19]}Z" if until else ""


def _picked(record: Record) -> dict[str, Any]:
    return {name: record.get(name) for name in descriptions.SHOWN}
