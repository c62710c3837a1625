"""Exit codes of commands that pass on the exit code of another command (docs/requests).

`lading run`, `map`, `wait`, `hpc run` and `request logs -f` end with the exit code of the user's
command. Their own failures are 125, as those of env(1), timeout(1) and `docker run`, so that
scripts can tell the two apart. `client.outcomes` gives 124 to 127 for a request without an exit
code.
"""

from __future__ import annotations

from typing import Final

import click

OWN_FAILURE: Final = 125
"""Lading itself refused or failed."""
TIMED_OUT: Final = 124
"""As timeout(1) of GNU coreutils."""
INTERRUPTED: Final = 130
"""As shells report an end by SIGINT: 128 + 2."""
UNREAD: Final = 141
"""As shells report an end by SIGPIPE, 128 + 13: the reader of the output left before its end."""
_OWN: Final = "lading.exit_code"
_JSON: Final = "lading.json"


def pass_on(ctx: click.Context) -> None:
    """Let the running command end with OWN_FAILURE for its own failures, wrong usage included."""
    ctx.meta[_OWN] = OWN_FAILURE


def own_code(ctx: click.Context, default: int) -> int:
    """The exit code for a failure of the command itself, `default` unless `pass_on` was called."""
    code = ctx.meta.get(_OWN, default)
    return code if isinstance(code, int) else default


def note_json(ctx: click.Context, param: click.Parameter, value: bool) -> bool:  # noqa: ARG001
    """Callback of the option `--json`: errors are JSON too."""
    if value:
        ctx.meta[_JSON] = True
    return value


def is_json(ctx: click.Context) -> bool:
    """Whether the command was given `--json`."""
    return bool(ctx.meta.get(_JSON))
