"""`lading completion`: the script that enables a shell to complete the commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lading.cli import display


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@display.json_option
def completion(shell: str, as_json: bool) -> None:
    """Print the completion script for SHELL.

    \b
    bash: eval "$(lading completion bash)"           in ~/.bashrc
    zsh:  eval "$(lading completion zsh)"            in ~/.zshrc
    fish: lading completion fish | source            in ~/.config/fish/config.fish
    """
    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(root, {}, "lading", "_LADING_COMPLETE").source()
    if as_json:
        display.emit_json({"shell": shell, "script": script})
    else:
        click.echo(script)
