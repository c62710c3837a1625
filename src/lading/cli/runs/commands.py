"""`lading runs`: the group; without a command it lists the runs.

The commands that are seldom used are imported when they are called.
"""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.options import DURATION
from lading.cli.references import find_project
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.run_records.reading import list_runs
from lading.core.quantities import format_time
from lading.core.runs.states import RunState

_COMMANDS: Final = {
    "list": "lading.cli.runs.commands",
    "show": "lading.cli.runs.showing",
    "watch": "lading.cli.runs.watching",
    "diff": "lading.cli.runs.comparing",
    "report": "lading.cli.runs.reporting",
    "get": "lading.cli.runs.fetching",
    "rerun": "lading.cli.runs.rerunning",
    "notify": "lading.cli.runs.notifying",
    "cancel": "lading.cli.runs.ending",
    "rm": "lading.cli.runs.ending",
    "begin": "lading.cli.runs.beginning",
    "end": "lading.cli.runs.beginning",
    "add": "lading.cli.runs.beginning",
}
"""Commands with the module that has each as a function of its name."""
_USUAL: Final = 30
"""Runs of a list without --limit."""


class _RunsGroup(click.Group):
    """A group that imports its commands when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click calls it so)
        """All commands, in the order of the help."""
        return list(_COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 (click calls it so)
        cmd_name: str,
    ) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name])
        command: click.Command = getattr(module, f"{cmd_name}_run")
        return command


@click.group(cls=_RunsGroup, invoke_without_command=True)
@click.pass_context
def runs(ctx: click.Context) -> None:
    """Runs of pipelines: one execution with its steps, state, cost and report.

    Without a command they are listed. RUN is a name, as cohort-7, a uuid, or `last`; cohort-7#2 is
    its second attempt. A run comes from `lading run --run NAME`, from the variable LADING_RUN, from
    lading.run() in Python, from Snakemake, CWL, TES and WES.

    \b
    lading run --run cohort-7 --name align -- sh align.sh
    lading runs show cohort-7
    lading runs diff cohort-7#1 cohort-7#2
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_run)


@click.command("list")
@click.option("--name", metavar="TEXT", help="List runs with this text in their names.")
@click.option("--project", metavar="PROJECT", help="List runs in this project.")
@click.option("--user", metavar="USER", help="List runs that this user began: uuid, name, or me.")
@click.option(
    "--state",
    type=click.Choice([str(state) for state in RunState]),
    help="List runs in this state.",
)
@click.option("--since", type=DURATION, metavar="TIME", help="List runs begun in this time.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=_USUAL, show_default=True,
    help="List so many at most.",
)  # fmt: skip
@display.with_json
def list_run(
    name: str | None = None,
    project: str | None = None,
    user: str | None = None,
    state: str | None = None,
    since: int | None = None,
    limit: int = _USUAL,
) -> display.Output:
    """List runs, the last begun first: state, steps, cost, and what reuse saved.

    \b
    lading runs list --state failed --since 7d
    """

    async def action(session: CliSession) -> tuple[list[Record], dict[str, str]]:
        moment = datetime.now(UTC) - timedelta(seconds=since) if since else None
        listed = await list_runs(
            session.api,
            limit=limit,
            name=name,
            project=await find_project(session, project) if project else None,
            user=await _find_user(session, user) if user else None,
            state=state,
            since=format_time(moment) if moment else None,
        )
        return listed, await user_names(session, [run["user_uuid"] for run in listed])

    listed, names = with_session(action)
    yield listed
    now = datetime.now(UTC)
    display.table(
        ("RUN", "STATE", "STEPS", "FAILED", "REUSED", "TOOK", "LEFT", "AGE", "COST", "SAVED",
         "USER", "PARAMETERS"),
        [_row(run, names, now) for run in listed],
        optional=("SAVED", "USER", "COST", "REUSED", "LEFT"),
    )  # fmt: skip
    if not listed:
        display.note("no run; 'lading run --run NAME' makes one, see 'lading runs --help'")


def _row(run: Record, names: dict[str, str], now: datetime) -> tuple[str, ...]:
    counts = run["counts"]
    return (
        title_of(run),
        run["state"],
        f"{counts['done']}/{counts['total']}",
        str(counts["failed"] or ""),
        str(counts["reused"] or ""),
        took(run, now),
        time_left(run, now).removeprefix("about "),
        display.age(run["began_at"], now),
        dollars(run["cost"]),
        dollars(run["saved"]),
        names.get(run["user_uuid"], ""),
        parameters_line(run["params"]),
    )


def title_of(run: Record) -> str:
    """The name of a run, with the number of its attempt after the first."""
    attempt = f"#{run['attempt']}" if run["attempt"] > 1 else ""
    return f"{run['name'] or run['uuid']}{attempt}"


def took(run: Record, now: datetime) -> str:
    """The time from the begin of a run to its end, or until now."""
    from lading.core.quantities import parse_time

    is_over = run["state"] not in (RunState.RUNNING, RunState.WAITING)
    ends = [moment for moment in (run["finished_at"], run["ended_at"]) if moment]
    if is_over and not ends:
        return ""
    end = max(parse_time(moment) for moment in ends) if is_over else now
    return display.duration(max(0.0, (end - parse_time(run["began_at"])).total_seconds()))


def time_left(run: Record, now: datetime) -> str:
    """The time until the expected end of a run: `about 5 min`; "" where none is expected."""
    from lading.core.containers.attempts.spot import about
    from lading.core.quantities import parse_time

    # A server before this attribute has none.
    end = run.get("expected_end")
    return about(max(0.0, (parse_time(end) - now).total_seconds())) if end else ""


def dollars(amount: float) -> str:
    """An amount of dollars; "" for nothing."""
    return f"{amount:.2f}" if amount >= 0.005 else ("<0.01" if amount > 0 else "")


def parameters_line(params: dict[str, Any]) -> str:
    """Parameters as one line: `k=25 reads=a.fq`."""
    return " ".join(f"{name}={_plain_value(value)}" for name, value in params.items())


def _plain_value(value: object) -> str:
    if isinstance(value, str):
        return value
    import msgspec

    return msgspec.json.encode(value).decode()


async def user_names(session: CliSession, uuids: list[str]) -> dict[str, str]:
    """The names of users by uuid; those that the caller does not see are left out."""
    known = sorted({uuid for uuid in uuids if uuid})
    names: dict[str, str] = {}
    for start in range(0, len(known), 100):
        rows = await session.api.list(
            "users",
            filters=[["uuid", "in", known[start : start + 100]]],
            select=("uuid", "username", "email"),
            limit=100,
        )
        names |= {row["uuid"]: row["username"] or row["email"] or "" for row in rows}
    return names


async def _find_user(session: CliSession, user: str) -> str:
    if user == "me":
        return str((await session.api.get("users", "current", select=("uuid",)))["uuid"])
    from lading.cli.accounts.users import find_user

    return str((await find_user(session, user))["uuid"])
