"""`lading runs notify`: a message at the end of a run."""

from __future__ import annotations

import click

from lading.cli import display
from lading.cli.runs.commands import title_of
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.run_records import notifying
from lading.client.run_records.notifying import Notification
from lading.client.run_records.reading import find_run, read_run
from lading.core.webhooks import descriptions


@click.command("notify")
@click.argument("run")
@click.option("--webhook", "url", metavar="URL", help="Send a signed event to this address.")
@click.option("--email", metavar="ADDRESS", help="Send an e-mail; 'me' is your own address here.")
@click.option("--on-failure", is_flag=True, help="Only where the run has failed or was cancelled.")
@click.option("--off", is_flag=True, help="Tell nobody any more.")
@display.with_json
def notify_run(
    run: str, url: str | None, email: str | None, on_failure: bool, off: bool
) -> display.Output:
    """Be told of the end of RUN, by a webhook or by e-mail; without options show who is told.

    The end counts when no step waits or runs and its program has reported the end ('lading runs
    end'), or a minute later. A run that goes on, or its next attempt, is told again.

    \b
    lading runs notify cohort-7 --email me
    lading runs notify cohort-7 --webhook https://ci.example.org/lading --on-failure
    """
    if off and (url or email):
        raise click.UsageError("Give --off, or --webhook and --email.")

    async def action(session: CliSession) -> tuple[Record, list[Notification], list[Record]]:
        reference = await find_run(session.api, run)
        record = await read_run(session.api, reference)
        notifications = [
            await notifying.notify(
                session.api, reference.uuid, title_of(record), receiver, only_failures=on_failure
            )
            for receiver in (url, email)
            if receiver
        ]
        if off:
            await notifying.forget(session.api, reference.uuid)
        return record, notifications, await notifying.wishes(session.api, reference.uuid)

    record, notifications, wishes = with_session(action)
    yield [
        {
            "uuid": wish["uuid"],
            "url": wish["url"],
            "format": wish["format"],
            "states": wish["states"],
            "state": wish["state"],
            "secret": next(
                (new.secret for new in notifications if new.webhook["uuid"] == wish["uuid"]), ""
            ),
        }
        for wish in wishes
    ]
    if not wishes:
        display.note(f"nobody is told of the end of {title_of(record)}")
        return
    display.table(
        ("WEBHOOK", "RECEIVER", "WHEN", "STATE"),
        [
            (
                wish["uuid"],
                descriptions.receiver_text(wish["url"]),
                " or ".join(wish["states"]) or "at the end",
                wish["state"],
            )
            for wish in wishes
        ],
    )
    for notification in notifications:
        if notification.secret:
            click.echo(notification.secret)
            display.note("this secret signs the deliveries; it is shown this once")
