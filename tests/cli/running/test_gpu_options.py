"""The options about GPUs; that they reach the server is tested in test_run.py."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from lading.cli.options import SectionedCommand
from lading.cli.running.gpu_options import gpu_options


@click.command(cls=SectionedCommand)
@gpu_options("Needs")
def command(**options: Any) -> None:
    """Print the values that it is given."""
    click.echo(sorted(options.items()))


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([], {"gpus": None, "gpu_memory": None, "gpu_type": (), "cuda": None}),
        (
            ["--gpus", "2", "--gpu-memory", "16GiB", "--gpu-type", "Ada", "--gpu-type", "sm_80"],
            {"gpus": 2, "gpu_memory": 16 << 30, "gpu_type": ("8.0", "ada"), "cuda": None},
        ),
        (["--cuda", "12"], {"gpus": None, "gpu_memory": None, "gpu_type": (), "cuda": "12.0"}),
    ],
)
def test_values(arguments: list[str], values: dict[str, object]) -> None:
    done = CliRunner().invoke(command, arguments)
    assert done.output.strip() == str(sorted(values.items()))


def test_faults_name_their_option() -> None:
    for arguments in (["--gpus", "x"], ["--gpu-memory", "16"], ["--gpu-type", ","], ["--cuda", ""]):
        done = CliRunner().invoke(command, arguments)
        assert done.exit_code == 2
        assert f"Invalid value for '{arguments[0]}'" in done.output


def test_help_has_them_under_their_heading() -> None:
    text = CliRunner().invoke(command, ["--help"]).output
    assert text.index("Needs:") < text.index("--gpu-type KIND") < text.index("Options:")
