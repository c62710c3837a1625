"""The `lading` command: finds the sub-command, imports only its module, and shows errors.

`lading --help` imports only click, so that it responds at once; the table below names the module
of each sub-command. An error is one line on standard error, with `--json` of JSON. Exit codes: 2
for wrong usage, 130 after Ctrl-C, 141 where nobody reads the output any more, 1 for all other
errors; of commands that run something its exit code, and 125 for errors (`exit_codes`).
"""

from __future__ import annotations

import gc
import importlib
import keyword
import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from lading import __version__
from lading.cli import exit_codes
from lading.core.errors import LadingError

# Section -> command -> module and help text. The texts are here so that `--help` imports no
# command.
_SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Work": {
        "run": ("lading.cli.running.run", "Run one command in a container and wait for it."),
        "map": (
            "lading.cli.running.mapping",
            "Run one command for each of many files, or for each row of a table.",
        ),
        "wait": ("lading.cli.running.waiting", "Wait for many requests; show how they ended."),
        "top": ("lading.cli.running.top", "Show waiting, running and ended requests, live."),
        "shell": (
            "lading.cli.running.shell",
            "Open a shell in a running container, or reach its ports.",
        ),
        "request": (
            "lading.cli.running.requests",
            "List, show, change, cancel, repeat and explain requests; read their logs.",
        ),
        "runs": (
            "lading.cli.runs.commands",
            "List runs of pipelines; show, follow, compare, report, cancel one.",
        ),
        "template": (
            "lading.cli.templates.commands",
            "Save a run as a template with parameters; list, show, run templates.",
        ),
        "cost": (
            "lading.cli.running.costs",
            "Show the cost of requests, savings by reuse, and losses.",
        ),
        "mcp": (
            "lading.cli.assistants.command",
            "Serve an assistant: requests, reasons, logs, small files; read-only.",
        ),
        "open": ("lading.cli.opening", "Open the page of the server in a browser, logged in."),
    },
    "Data": {
        "put": ("lading.cli.files.data", "Store files and directories as a collection."),
        "get": ("lading.cli.files.data", "Write a collection, or part of it, to disk."),
        "ls": ("lading.cli.files.data", "List collections, or the files of one."),
        "cat": ("lading.cli.files.data", "Write files of a collection to standard output."),
        "cp": ("lading.cli.files.changing", "Copy files between collections; no data is moved."),
        "mv": ("lading.cli.files.changing", "Move or rename files in a collection."),
        "rm": ("lading.cli.files.changing", "Take files out of a collection."),
        "diff": ("lading.cli.files.comparing", "Show how two collections or requests differ."),
        "du": (
            "lading.cli.files.comparing",
            "Show the space that collections take, and share.",
        ),
        "prune": (
            "lading.cli.files.pruning",
            "Put outputs and logs of old requests into the trash, with a preview.",
        ),
        "share": ("lading.cli.files.sharing", "Let others use a collection, or list its users."),
        "unshare": ("lading.cli.files.sharing", "Take a permission back."),
        "trash": ("lading.cli.files.changing", "Put collections into the trash."),
        "undelete": (
            "lading.cli.files.changing",
            "Take collections out of the trash, or list it.",
        ),
        "mount": ("lading.cli.files.mount", "Show the store as a directory, through FUSE."),
        "image": ("lading.cli.images", "Add and list container images."),
        "project": (
            "lading.cli.projects",
            "Create, list, show, rename, move, share and trash projects.",
        ),
    },
    "Provenance": {
        "trace": (
            "lading.cli.provenance.trace",
            "Show the origins and the uses of a result.",
        ),
        "preview": (
            "lading.cli.provenance.preview",
            "Show the steps of a pipeline that would run, with reasons and earlier times.",
        ),
        "replay": (
            "lading.cli.provenance.replay",
            "Run a request again as it is recorded, and compare the outputs.",
        ),
        "invalidate": (
            "lading.cli.provenance.invalidate",
            "Withdraw results from reuse, with a reason; list results made from them.",
        ),
        "export": (
            "lading.cli.provenance.export",
            "Write a request, or all that led to it, as an RO-Crate.",
        ),
        "import": (
            "lading.cli.provenance.crate_import",
            "Store the contents of a crate on this server, with the same hashes.",
        ),
    },
    "Users": {
        "login": (
            "lading.cli.accounts.login",
            "Log in at a site elsewhere; commands use it.",
        ),
        "logout": ("lading.cli.accounts.login", "Forget a login, and end its token."),
        "whoami": ("lading.cli.accounts.login", "Show the user and the site of commands."),
        "user": ("lading.cli.accounts.users", "Make, list, change and switch off users."),
        "token": (
            "lading.cli.accounts.tokens",
            "Make tokens with just the needed rights; revoke them.",
        ),
        "credential": (
            "lading.cli.accounts.credentials",
            "Keys and passwords for servers of inputs and outputs of GA4GH tasks.",
        ),
        "quota": (
            "lading.cli.running.quotas",
            "Limit what users, roles and projects use; show the use.",
        ),
        "webhook": ("lading.cli.webhooks", "Send events to a program, to Slack, or by e-mail."),
    },
    "This machine": {
        "up": ("lading.cli.services", "Serve everything from this machine, with one command."),
        "down": ("lading.cli.services", "Stop what `lading up` serves from this machine."),
        "service": (
            "lading.cli.service",
            "Run `lading up` by systemd, for the machine or for you.",
        ),
        "hpc": ("lading.cli.hpc", "Run MPI programs, unchanged, in clusters of containers."),
        "dispatch": (
            "lading.cli.services",
            "Run containers of a server anywhere on this machine or its Slurm.",
        ),
        "cloud": ("lading.cli.cloud", "Test the configuration of a cloud with real VMs."),
        "instance": (
            "lading.cli.cloud",
            "List, hold, drain and remove the VMs of a cloud dispatcher.",
        ),
        "kubernetes": (
            "lading.cli.kubernetes",
            "Test the configuration of a Kubernetes cluster with real Pods.",
        ),
        "admin": (
            "lading.cli.admin",
            "Back up, restore and look after the data of this machine; admit dispatchers.",
        ),
        "doctor": (
            "lading.cli.doctor",
            "Check whether this machine can run containers, with remedies.",
        ),
        "man": ("lading.cli.manual", "Print the manual page, of all commands or of one."),
        "completion": ("lading.cli.completion", "Print the completion script for a shell."),
    },
}
# They handle signals themselves.
_SERVICES = ("up", "dispatch", "hpc", "mount", "mcp", "cloud", "kubernetes")
_EPILOG = (
    "Commands use the site of --site, else of ARVADOS_API_HOST and ARVADOS_API_TOKEN, "
    "else of the last login, else of this machine."
)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click calls it so)
        """All commands, in the order of the help."""
        return [name for section in _SECTIONS.values() for name in section]

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 (click calls it so)
        cmd_name: str,
    ) -> click.Command | None:
        """The command of this name, imported now."""
        for section in _SECTIONS.values():
            if cmd_name in section:
                # No function can have the name of a keyword.
                name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
                command: click.Command = getattr(
                    importlib.import_module(section[cmd_name][0]), name
                )
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names. Raises UsageError with similar names."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            # Imported here, as `json` below: only wrong usage needs it.
            import difflib

            near = self._find_below(ctx, args[0]) or difflib.get_close_matches(
                args[0], self.list_commands(ctx)
            )
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"no such command '{args[0]}'{hint}", ctx)
        return super().resolve_command(ctx, args)

    def _find_below(self, ctx: click.Context, name: str) -> list[str]:
        """The commands of groups that have this name, with their group. Imports all groups."""
        groups = (
            (group_name, self.get_command(ctx, group_name))
            for group_name in self.list_commands(ctx)
        )
        return [
            f"{group_name} {name}"
            for group_name, group in groups
            if isinstance(group, click.Group) and name in group.commands
        ]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the sub-command; an error leaves the process with its exit code."""
        # Behind -- they are those of the user's command.
        words = ctx.args[: ctx.args.index("--")] if "--" in ctx.args else ctx.args
        with _ending_unread(ctx):
            try:
                return super().invoke(ctx)
            except (click.ClickException, LadingError, BaseExceptionGroup) as error:
                is_usage = isinstance(error, click.UsageError)
                _leave(
                    error,
                    exit_codes.own_code(ctx, 0),
                    # Wrong usage may have ended the command line before its options were read.
                    as_json=exit_codes.is_json(ctx) or (is_usage and "--json" in words),
                )
            except ModuleNotFoundError as error:
                from lading.cli.endings import extras

                if not (message := extras.remedy(error, ctx.invoked_subcommand or "")):
                    raise
                fail(message, exit_codes.own_code(ctx, 1), as_json=exit_codes.is_json(ctx))

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the command line; options like `--help` print here."""
        with _ending_unread():
            return super().make_context(info_name, args, parent, **extra)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 (click calls it so)
        formatter: click.HelpFormatter,
    ) -> None:
        """The commands by section, from the table alone."""
        for title, section in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, help_text) for name, (_, help_text) in section.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "lading",
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 (click calls it so; errors are ours to show)
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and exit the process with its exit code."""
        try:
            # standalone_mode False: click raises its errors instead of printing them.
            result = super().main(
                args,
                prog_name or "lading",
                complete_var,
                windows_expand_args=windows_expand_args,
                standalone_mode=False,
                **extra,
            )
        except click.ClickException as error:
            _leave(error)
        except click.Abort:
            # click raises Abort after Ctrl-C.
            fail("interrupted", exit_codes.INTERRUPTED)
        sys.exit(result if isinstance(result, int) else 0)


@contextmanager
def _ending_unread(ctx: click.Context | None = None) -> Generator[None]:
    """Where the output cannot be written any more, exit: with 141 after a broken pipe, with 1 if
    the terminal was closed. A full disk and a file that this user may not use are told in a line.
    """
    try:
        yield
    except (OSError, BaseExceptionGroup) as error:
        from lading.cli import file_faults, hangup
        from lading.cli.endings import end_signals

        # A terminal is closed by a signal too, whose end of the command fails to write to it.
        end_signals.raise_received(error)
        if text := file_faults.text_of(error):
            hangup.silence(is_full=hangup.is_full_disk(error))
            code = exit_codes.own_code(ctx, 1) if ctx else 1
            as_json = ctx is not None and exit_codes.is_json(ctx)
            fail(text, code, as_json=as_json)
        is_unread = hangup.is_broken_pipe(error)
        if not (is_unread or hangup.is_hangup(error)):
            raise
        hangup.silence()
        sys.exit(exit_codes.UNREAD if is_unread else 1)


def fail(message: str, code: int, *, as_json: bool = False, status: int | None = None) -> NoReturn:
    """Print an error as one line on standard error, and exit. `status`: that of the API."""
    # Imported here: a successful command without output does not need it.
    from lading.cli import display
    from lading.core.quantities import bounded

    line = " ".join(bounded(message).split())
    if as_json:
        import json

        known = {} if status is None else {"status": status}
        click.echo(json.dumps({"error": {"message": line, **known, "exit_code": code}}), err=True)
    else:
        display.warn(line)
    sys.exit(code)


def _leave(error: BaseException, own: int = 0, *, as_json: bool = False) -> NoReturn:
    """Print an error and exit, with `own` unless that is 0."""
    # Commands that run tasks raise groups; the first error stands for all.
    if isinstance(error, BaseExceptionGroup):
        error = _first(error)
    if isinstance(error, LadingError):
        fail(error.message, own or 1, as_json=as_json, status=error.status)
    assert isinstance(error, click.ClickException)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        # A group without a command: its message is the whole help, to be read as it is.
        click.echo(error.format_message(), err=True)
        sys.exit(error.exit_code)
    said = error.format_message()
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "lading"
        said = f"{said.rstrip('.')} (see '{path} --help')"
    fail(said, own or error.exit_code, as_json=as_json)


def _first(group: BaseExceptionGroup[BaseException]) -> LadingError:
    """The first LadingError in a group; other errors are raised again."""
    # Any other error is a fault of this program and must be seen whole.
    ours, others = group.split(LadingError)
    if ours is None or others is not None:
        raise group
    error: BaseException = ours
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, LadingError)
    return error


@click.group(
    "lading",
    cls=LazyGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="lading %(version)s")
@click.option(
    "--site",
    metavar="NAME",
    help="Use the login of this name, 'own' for this machine.  [default: $LADING_SITE]",
)
@click.pass_context
def cli(ctx: click.Context, site: str | None) -> None:
    """Run containers as records: equal work is done once, and every result can be explained."""
    if site is not None:
        # A variable, as the programs that commands start need it too.
        os.environ["LADING_SITE"] = site
    if ctx.invoked_subcommand not in _SERVICES and not ctx.resilient_parsing:
        from lading.cli.endings import end_signals

        ctx.with_resource(end_signals.raising())
    # The modules of the command are imported (`console.main`).
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # `obj` is set by tests; completion must not connect.
    if ctx.obj is None and not ctx.resilient_parsing:
        from lading.cli.session import connect

        ctx.obj = connect


def main() -> NoReturn:
    """The entry point of the installed command."""
    try:
        cli.main()
    except SystemExit as left:
        from lading.cli.endings import end_signals

        # The interpreter looks for garbage among all objects before it ends: 20 to 30 ms, and the
        # memory is given back anyway.
        gc.freeze()
        end_signals.leave(left)
    raise AssertionError("the command line always leaves the process")
