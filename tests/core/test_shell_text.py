"""Quoting of a shell, and the scripts in a command."""

from __future__ import annotations

import pytest

from lading.core.shell_text import Quoting, programs, quoting_of, scripts


@pytest.mark.parametrize(
    ("command", "positions"),
    [
        ("sh -c X", {2}),
        ("/bin/bash -euo pipefail -c X a", {4}),
        ("bash -ceuo pipefail X", {3}),
        ("bash --norc --rcfile f -c X", {5}),
        ("bash +O extglob -c X", {4}),
        ("sh -c -- X", {3}),
        ("env A=1 timeout 5 bash -lc X", {6}),
        ("find . -exec sh -c X ;", {5}),
        ("sh file -c X", set()),
        ("sh -e file", set()),
        ("sh -c", set()),
        ("wc -c X", set()),
    ],
)
def test_scripts_of_shells(command: str, positions: set[int]) -> None:
    assert scripts(command.split()) == positions


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("python3.11 -u -c X y", {3: "python3.11"}),
        ("/usr/bin/perl -p -e X", {2: "perl", 3: "perl"}),
        ("node --eval X", {}),
        ("ruby -- -e X", {}),
        ("python3 file -c X", {}),
        ("fish -c X", {2: "fish"}),
        ("cat x", {}),
    ],
)
def test_programs_of_interpreters(command: str, named: dict[int, str]) -> None:
    assert programs(command.split()) == named


@pytest.mark.parametrize(
    ("script", "quoting"),
    [
        ("echo @", Quoting.BARE),
        ("echo \\' @", Quoting.BARE),
        ("echo 'a' @", Quoting.BARE),
        ("echo '@'", Quoting.SINGLE),
        ("echo $'\\'@'", Quoting.DOLLAR_SINGLE),
        ('echo "a\\"@"', Quoting.DOUBLE),
        ('echo "$(ls @)"', Quoting.BARE),
        ('echo "`ls @`"', Quoting.BARE),
        ('echo "$(ls "@")"', Quoting.DOUBLE),
        ('echo "$(ls x)@"', Quoting.DOUBLE),
        ("(ls; echo @)", Quoting.BARE),
        ("echo $((1 + (2 * @)))", Quoting.ARITHMETIC),
        ("echo $((1 + (2 * 3))) @", Quoting.BARE),
        ('echo "$((@))"', Quoting.ARITHMETIC),
        ("ls # it's @", Quoting.COMMENT),
        ("ls # it's\necho @", Quoting.BARE),
        ("ls a#'@'", Quoting.SINGLE),
        ("# it's", Quoting.COMMENT),
        ("cat <<E\n@\nE\n", Quoting.HERE_DOCUMENT),
        ("cat <<-E\n\t@\n\tE\n", Quoting.HERE_DOCUMENT),
        ("cat <<E\n'\nE\necho @", Quoting.BARE),
        ("cat <<'E'\n@\nE", Quoting.QUOTED_HERE_DOCUMENT),
        ("cat <<\\E\n@", Quoting.QUOTED_HERE_DOCUMENT),
        ("cat <<<'@'", Quoting.SINGLE),
        ("a) echo @", Quoting.BARE),
        ("echo \\", Quoting.BARE),
    ],
)
def test_quoting_at_a_place(script: str, quoting: Quoting) -> None:
    quotings = quoting_of(script)
    assert len(quotings) == len(script)
    assert quotings[script.find("@")] is quoting
