"""`lading completion`: the script that enables a shell to complete the commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lading.cli import display


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@display.with_json
def completion(shell: str) -> display.Output:
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
    yield {"shell": shell, "script": script}
    click.echo(script)
