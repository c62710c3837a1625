"""Placeholders of a command that is run for many items."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.placeholders import fill, fill_command

VALUES = {"": "my file", "stem": "it's", "n": "3", "a.b": "x", "a-b": "y"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{} {stem} {none} {", "my file it's {none} {"),
        ("{:q} {stem:q} {none:q}", "'my file' 'it'\"'\"'s' {none:q}"),
        ("{stem:raw}", "it's"),
    ],
)
def test_texts_take_values_as_they_are(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


@pytest.mark.parametrize(
    ("script", "filled"),
    [
        ("echo x > {other}", "echo x > {other}"),
        ("wc < {} > {}", 'item=\'my file\'; wc < "${item}" > "${item}"'),
        ('echo "{n}.txt"', 'item_n=3; echo "${item_n}.txt"'),
        ("echo 'a {n} b'", "item_n=3; echo 'a '\"${item_n}\"' b'"),
        ("echo $'a {n}'", "item_n=3; echo $'a '\"${item_n}\"$''"),
        ("echo $(( {n} + 1 ))", "item_n=3; echo $(( ${item_n} + 1 ))"),
        ("cat <<E\n{n}\nE\n", "item_n=3; cat <<E\n${item_n}\nE\n"),
        ("echo {a.b} {a-b}", 'item_a_b=x; item_a_b_=y; echo "${item_a_b}" "${item_a_b_}"'),
        ("item=1; echo {}", "item_='my file'; item=1; echo \"${item_}\""),
        ("echo ${n} {n}", 'item_n=3; echo ${n} "${item_n}"'),
        ("echo {n:raw} {:q}", "echo 3 'my file'"),
        ("echo {none} {n:raw}", "echo {none} 3"),
    ],
)
def test_a_script_has_variables(script: str, filled: str) -> None:
    assert fill_command(("sh", "-c", script), VALUES) == ("sh", "-c", filled)


def test_words_that_are_no_script_take_values_as_they_are() -> None:
    command = ("sort", "-k", "{n}", "{}", "{:q}")
    assert fill_command(command, VALUES) == ("sort", "-k", "3", "my file", "'my file'")


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (("sh", "-c", "cat <<'E'\n{n}\nE"), "here-document"),
        (("bash", "-c", "echo $(({stem}))"), "evaluates a number"),
        (("python3", "-c", "print('{stem}')"), "could be read as code of python3"),
        (("perl", "-ne", "print '{stem}'"), "could be read as code of perl"),
    ],
)
def test_values_that_would_be_code_are_refused(command: tuple[str, ...], fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        fill_command(command, VALUES)


@pytest.mark.parametrize("text", ["print({n})", "print('''{stem:raw}''')", "print({none})"])
def test_programs_take_harmless_values(text: str) -> None:
    assert fill_command(("python3", "-c", text), VALUES)[2] == fill(text, VALUES)


def test_messages_are_short() -> None:
    with pytest.raises(Invalid) as caught:
        fill_command(("python3", "-c", "{x}"), {"x": "'" * 5000})
    assert len(caught.value.message) <= 300


@pytest.mark.parametrize(
    ("command", "value", "fault"),
    [
        (("awk", "{x}"), 'BEGIN{system("id")} #', "code of awk"),
        (("/usr/bin/gawk", "-F", ":", "-v", "a=1", "{x}"), "(1)", "code of gawk"),
        (("sed", "-n", "s/a/{x}/"), "b/e", "code of sed"),
        (("sed", "-e", "p", "-es/a/{x}/"), "b;e id", "code of sed"),
        (("sed", "--expression=s/a/{x}/", "f"), "b;e id", "code of sed"),
        (("sh", "-c", "bash -c 'echo {x} > f'"), "$(id)", "a program that the script starts"),
        (("sh", "-c", 'bash -euc "echo {x}"'), "$(id)", "a program that the script starts"),
        (("sh", "-c", 'eval "echo {x} > f"'), "$(id)", "a program that the script starts"),
        (("sh", "-c", "eval echo {x}"), "$(id)", "a program that the script starts"),
        (("sh", "-c", "find . -exec sh -c 'echo {x}' ';'"), "`id`", "a program that the script"),
        (("sh", "-c", "sed 's/a/{x}/' f"), "b/e", "a program that the script starts"),
        (("bash", "-c", "[[ {x} -eq 1 ]]"), "a[$(id)]", "evaluates a number"),
        (("bash", "-c", "[[ 1 -lt '{x}' ]]"), "a[$(id)]", "evaluates a number"),
        (("bash", "-c", "q[{x}]=1"), "a[$(id)]", "evaluates a number"),
        (("bash", "-c", "echo $[{x}]"), "a[$(id)]", "evaluates a number"),
        (("bash", "-c", "echo ${{s:{x}}}".replace("{{", "{").replace("}}}", "}}")), "a", "number"),
        (("bash", "-c", "let y={x}"), "name", "evaluates a number"),
        (("bash", "-c", "echo $(({x}))"), "name", "evaluates a number"),
    ],
)
def test_further_readers_of_code(command: tuple[str, ...], value: str, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        fill_command(command, {"x": value})


@pytest.mark.parametrize(
    "command",
    [
        ("awk", "-v", "a={x}", "{print a}", "{x}"),
        ("sed", "-l", "5", "-e", "p", "{x}"),
        ("sed", "--", "p", "{x}"),
        ("awk", "-f"),
        ("sh", "-c", "awk '{ print $1 }' {x} > out"),
        ("sh", "-c", "echo '{x}' > evaluated.txt"),
    ],
)
def test_values_beside_further_readers_stay_words(command: tuple[str, ...]) -> None:
    fill_command(command, {"x": "it's $(id)"})
