"""Values on their way to a function and back, and the call."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any

import pytest

from lading.client import function_runner
from lading.client.function_runner import decode, encode, main


def _none(_: Any) -> None:
    return None


def _refuse(kind: str, _: Any) -> Any:
    raise ValueError(kind)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2.5,
        math.inf,
        "text",
        b"\x00\xff",
        [1, [2]],
        (1, (2, "x")),
        {"a": 1},
        {1: 2, (3,): 4},
        {"$": 1},
        {1, 2},
        frozenset("ab"),
    ],
)
def test_values_come_back(value: object) -> None:
    text = json.dumps(encode(value, _none), allow_nan=False)
    back = decode(json.loads(text), _refuse)
    assert back == value
    assert type(back) is (set if isinstance(value, frozenset) else type(value))


def test_equal_values_have_one_text() -> None:
    assert encode({"b", "a", "c"}, _none) == encode({"c", "b", "a"}, _none)
    assert math.isnan(decode(encode(math.nan, _none), _refuse))


def test_other_values_are_refused() -> None:
    with pytest.raises(TypeError, match="a value of type object"):
        encode([object()], _none)
    with pytest.raises(ValueError, match="thing"):
        decode([{"$": "thing", "v": 1}], _refuse)


def test_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.py").write_text(
        "import pathlib\n"
        "def f(path, *, word):\n"
        "    pathlib.Path('made').write_text(word)\n"
        "    return path.name, pathlib.Path('made')\n"
        "def g():\n"
        "    return pathlib.Path('/etc/passwd')\n"
    )
    given = {"args": [{"$": "path", "v": "/in/a.txt"}], "kwargs": {"word": "x"}}
    Path("args").write_text(json.dumps(given))
    main("f.py", "args", "f")
    written = json.loads(Path("result.json").read_text())
    assert written == {"$": "tuple", "v": ["a.txt", {"$": "output", "v": "made"}]}
    Path("args").write_text('{"args": [], "kwargs": {}}')
    with pytest.raises(TypeError, match="not below the working directory"):
        main("f.py", "args", "g")
    Path("args").write_text('{"args": [{"$": "x", "v": 1}], "kwargs": {}}')
    with pytest.raises(ValueError, match="unknown kind: x"):
        main("f.py", "args", "g")


def test_old_interpreters_can_read_it() -> None:
    ast.parse(Path(function_runner.__file__).read_text(), feature_version=(3, 7))
