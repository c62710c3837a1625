"""Placeholders of a command that is run for many items: `{}`, `{column}`, `{column:q}`.

In the script of a shell (`sh -c 'wc -w < {} > {stem}'`) a placeholder becomes a quoted variable and
the values are set in front of the script, so that every value is one word, whatever characters it
has, and is never read as code:

    item='my file'; item_stem='my file'; wc -w < "${item}" > "${item_stem}"

`{column:q}` is the value quoted for a shell, for a script that stands elsewhere; `{column:raw}` is
the value itself, also in a script. A value that a further program would read as code is refused:
an interpreter, awk or sed, a shell or `eval` that the script starts, an arithmetic expression.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from lading.core import shell_text
from lading.core.errors import Invalid
from lading.core.quantities import shorten
from lading.core.shell_text import Quoting

PLACEHOLDER: Final = re.compile(r"\{([\w.-]*)(?::(q|raw))?\}")
# Values that are a number, a name or a path in every language: they end no text and call nothing.
_HARMLESS: Final = re.compile(r"[\w.,:/@%+= -]*")
# The same for sed, where any sign may be the one that ends a text.
_PLAIN: Final = re.compile(r"[\w.-]*")
# A name is none: the shell would evaluate the value of the variable of this name.
_NUMBER: Final = re.compile(r"(?:[+-]?\d[\w.]*)?")
_REFERENCES: Final = {
    Quoting.BARE: '"${%s}"',
    Quoting.SINGLE: "'\"${%s}\"'",
    Quoting.DOLLAR_SINGLE: "'\"${%s}\"$'",
}


def fill(template: str, values: Mapping[str, str]) -> str:
    """A text in which each placeholder of `values` is replaced; other braces stay."""
    return PLACEHOLDER.sub(lambda match: _replaced(match, values), template)


def fill_command(command: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """A command in which each placeholder is replaced, in scripts by variables. Raises Invalid for
    a value that would be read as code.
    """
    scripts = shell_text.scripts(command)
    programs = shell_text.programs(command) | shell_text.filter_programs(command)
    filled = []
    for position, word in enumerate(command):
        if position in scripts:
            filled.append(_fill_script(word, values))
        else:
            if position in programs:
                _check_program(word, values, programs[position])
            filled.append(fill(word, values))
    return tuple(filled)


def _replaced(match: re.Match[str], values: Mapping[str, str]) -> str:
    if match[1] not in values:
        return match[0]
    value = values[match[1]]
    return shlex.quote(value) if match[2] == "q" else value


def _fill_script(script: str, values: Mapping[str, str]) -> str:
    """A script with variables for its placeholders. Raises Invalid."""
    matches = [
        match
        for match in PLACEHOLDER.finditer(script)
        # `${name}` is a parameter of the shell.
        if match[1] in values and not script.endswith("$", 0, match.start())
    ]
    if not matches:
        return script
    quotings = shell_text.quoting_of(script)
    variables: dict[str, str] = {}
    pieces = []
    end = 0
    for match in matches:
        pieces.append(script[end : match.start()])
        end = match.end()
        if match[2]:
            pieces.append(_replaced(match, values))
        else:
            pieces.append(_reference(match, quotings[match.start()], values, variables, script))
    assignments = "".join(
        f"{variable}={shlex.quote(values[name])}; " for name, variable in variables.items()
    )
    return assignments + "".join(pieces) + script[end:]


def _reference(
    match: re.Match[str],
    quoting: Quoting,
    values: Mapping[str, str],
    variables: dict[str, str],
    script: str,
) -> str:
    """The text that stands for a placeholder; its variable is added to `variables`."""
    name, value = match[1], values[match[1]]
    if quoting is Quoting.QUOTED_HERE_DOCUMENT:
        raise Invalid(
            f"{match[0]} stands in a here-document that the shell does not expand: write its "
            f"delimiter without quotes, or {_raw(name)}"
        )
    is_number = quoting is Quoting.ARITHMETIC or shell_text.is_evaluated(
        script, match.start(), match.end()
    )
    if is_number and not _NUMBER.fullmatch(value):
        raise Invalid(
            f"{match[0]}: the value {shorten(value)!r} stands where the shell evaluates a number; "
            f"use a number, or {_raw(name)}"
        )
    harmless = _PLAIN if "sed" in script else _HARMLESS
    if shell_text.hands_on(script, quoting) and not harmless.fullmatch(value):
        raise Invalid(
            f"{match[0]}: the value {shorten(value)!r} could be read as code by a program that the "
            f"script starts; give {match[0]} to that as a further argument, or write {_raw(name)}"
        )
    if name not in variables:
        variables[name] = _variable(name, script, tuple(variables.values()))
    return _REFERENCES.get(quoting, "${%s}") % variables[name]


def _variable(name: str, script: str, taken: Sequence[str]) -> str:
    """A name of a variable that neither the script nor another placeholder has."""
    ascii_name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    variable = f"item_{ascii_name}" if name else "item"
    while variable in taken or re.search(rf"\b{variable}\b", script):
        variable += "_"
    return variable


def _check_program(template: str, values: Mapping[str, str], program: str) -> None:
    """Raises Invalid for a value that could change a program of another language."""
    for match in PLACEHOLDER.finditer(template):
        value = values.get(match[1], "")
        harmless = _PLAIN if program.endswith("sed") else _HARMLESS
        if match[2] is None and not harmless.fullmatch(value):
            raise Invalid(
                f"{match[0]}: the value {shorten(value)!r} could be read as code of {program}; "
                f"give {match[0]} as a further argument and read it there, or write "
                f"{_raw(match[1])}"
            )


def _raw(name: str) -> str:
    return f"{{{name}:raw}}"
