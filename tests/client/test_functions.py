"""Python functions in containers: what is sent, what is said, and what comes back."""

from __future__ import annotations

import inspect
import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import lading
from lading.client.functions import RemoteFunction, environment_image, explain, source_of
from lading.core.errors import Invalid
from tests.cli.site import Play, Site

LIMIT = 3
TABLE = {"a": 1}


def helper(number: float) -> int:
    """Called by another."""
    return min(math.floor(number), LIMIT)


def cut(path: Path, number: float = 2.5, *, word: str = "a") -> Any:
    """What is sent."""
    return [path.read_text(), helper(number), word, Path("x")]


def uses_a_table() -> int:
    """Not to be sent."""
    return TABLE["a"]


def uses_nothing_known() -> Any:
    """Not to be sent."""
    return nowhere  # type: ignore[name-defined] # noqa: F821


def recursive(number: int, step: int = LIMIT) -> int:
    """Calls itself, from an inner function too."""

    def inner() -> int:
        return recursive(number - step, helper(1))

    return number if number < 0 else inner()


def test_the_source_has_what_the_function_needs() -> None:
    text = source_of(cut)
    assert "import math as math" in text
    assert "from pathlib import Path as Path" in text
    assert "LIMIT = 3" in text
    assert "def helper" in text
    assert "uses_a_table" not in text
    module: dict[str, Any] = {}
    exec(source_of(recursive), module)
    assert module["recursive"](5) == recursive(5)


def test_functions_of_modules_in_c_are_imported_there(site: lading.Site) -> None:
    assert source_of(math.sqrt).endswith("from math import sqrt\n")
    assert source_of(pow).endswith("from builtins import pow\n")
    with pytest.raises(Invalid, match="max: its parameters are not known"):
        site.function(max)


def test_what_cannot_be_sent_is_named() -> None:
    outer = 1

    def inner() -> int:
        return outer

    for function, message in (
        (inner, "inner: uses outer of the function around it"),
        (uses_a_table, "uses_a_table: uses TABLE of its module"),
        (uses_nothing_known, "nowhere is not defined"),
        (lambda: 1, "write it with `def`"),
        (dict.fromkeys, "fromkeys: not a function that is written in Python"),
        (eval("lambda: 1"), "its source is not found"),
    ):
        with pytest.raises(Invalid, match=message):
            source_of(function)


def test_a_call_is_a_request(
    stage: Site,
    site: lading.Site,
    image: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "in.txt").write_text("text")
    remote = site.function(image=image)(cut)
    assert remote.__doc__ == "What is sent."
    result = {"result.json": b'[1, {"$": "output", "v": "d/x"}]', "d/x": b"7"}
    with stage.acting(Play(files=result), Play(files=result)):
        value = remote(tmp_path / "in.txt", word="b")
        assert value[0] == 1
        assert value[1].read_text() == "7"
        # The same, written in another way.
        assert remote(tmp_path / "in.txt", 2.5, word="b")[0] == 1
        assert "there is no earlier call" in capsys.readouterr().err
        future = remote.submit(value[1], word="c")
        assert future.result(30)[0] == 1
    err = capsys.readouterr().err
    assert "cut: computed, " in err
    assert 'word is "c", before "b"' in err
    record = stage.call(stage.world.ok("GET", f"container_requests/{future.run.uuid}"))
    assert record["command"][0] == "python3"
    assert "/lading/in/0/x" in record["mounts"]
    assert json.loads(record["mounts"]["/lading/args"]["content"])["kwargs"] == {"word": "c"}


def test_the_values_of_strangers_are_refused(
    stage: Site, site: lading.Site, image: str, tmp_path: Path
) -> None:
    remote = site.function(image=image, verbose=False, name="other")(cut)
    with pytest.raises(Invalid, match="cut: a value of type object"):
        remote(object())  # type: ignore[arg-type]
    files = {"result.json": b'{"$": "path", "v": "/etc/passwd"}'}
    with (
        stage.acting(Play(files=files)),
        pytest.raises(Invalid, match="a value of an unknown kind: path"),
    ):
        remote(tmp_path)


def test_it_says_why() -> None:
    signature = inspect.signature(cut)

    def said(*differences: dict[str, Any]) -> str:
        nearest = {"differences": differences}
        decision = {"decision": "new", "reason": "reuse is off", "nearest": nearest}
        return explain("f", {"decision": decision}, signature)

    assert explain("f", {"decision": None}, signature) == ""
    assert explain("f", {"decision": {"decision": "reuse"}}, signature) == ""
    assert said() == "f: computed again, reuse is off"
    assert said({"field": "command[4]"}) == "f: computed, there is no earlier call"
    source = {"field": "mounts./lading/function.py.content"}
    assert said(source, source) == "f: computed, its source has changed"
    assert said({"field": "container_image"}) == "f: computed, another image"
    runner = {"field": "mounts./lading/runner.py.content"}
    assert said(runner) == "f: computed, another version of Lading"
    file = {"field": "mounts./lading/in/0/a.txt.portable_data_hash"}
    assert said(file) == "f: computed, another content of a.txt"
    args = {"field": "mounts./lading/args.content", "request": None, "container": "{"}
    assert said(args) == "f: computed, other arguments"
    ours, theirs = (json.dumps({"args": [one], "kwargs": {}}) for one in ("x" * 99, 1))
    long = {"field": "mounts./lading/args.content", "request": ours, "container": theirs}
    assert said(long) == f'f: computed, path is "{"x" * 56}..., before 1'
    ours, theirs = (json.dumps({"args": [1, 2, 3, one], "kwargs": {}}) for one in (4, 5))
    rest = {"field": "mounts./lading/args.content", "request": ours, "container": theirs}
    assert said(rest) == "f: computed, other arguments"


def test_the_environment_is_an_image(
    stage: Site, site: lading.Site, capsys: pytest.CaptureFixture[str]
) -> None:
    # Not in a temporary directory, which may be below /dev: no container sees programs there.
    python = shutil.which("sh")
    assert python is not None
    first = site.call(environment_image(site.api, site.blocks, python))
    assert site.call(environment_image(site.api, site.blocks, python)) == first
    assert capsys.readouterr().err.count("adding an image") == 1


def test_the_interpreter_is_that_of_the_image(site: lading.Site, image: str) -> None:
    def python(**options: Any) -> str:
        return RemoteFunction(site, helper, **options).python

    assert python() == sys.executable
    assert python(image=image) == "python3"
    assert python(image=image, python="/opt/python") == "/opt/python"
