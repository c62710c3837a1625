"""Calls a Python function in a container: its text is the program of the container.

Besides the standard library it needs nothing, and any Python from 3.7 on. Values are written as
JSON; what JSON lacks is an object {"$": KIND, "v": ...}. Nothing is pickled: the client reads the
output of the container.

    function_runner.py FUNCTION ARGUMENTS NAME

FUNCTION is a file with the source of the function NAME, ARGUMENTS one with {"args", "kwargs"}. Its
value is written to result.json in the working directory.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import math
import pathlib
import sys
from typing import Any, Callable, Optional  # noqa: UP035

RESULT = "result.json"


def encode(value: Any, convert: Callable[[Any], Optional[Any]]) -> Any:  # noqa: UP045
    """The value as JSON; `convert(value)` gives the JSON of a value that is not plain, or None.

    Raises TypeError for a value that has none.
    """
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$": "float", "v": repr(value)}
    if isinstance(value, list):
        return [encode(element, convert) for element in value]
    if isinstance(value, dict) and "$" not in value and all(type(key) is str for key in value):
        return {key: encode(element, convert) for key, element in value.items()}
    converted = convert(value)
    return _tagged(value, convert) if converted is None else converted


def _tagged(value: Any, convert: Callable[[Any], Optional[Any]]) -> Any:  # noqa: UP045
    if isinstance(value, dict):
        return {"$": "dict", "v": [encode(list(pair), convert) for pair in value.items()]}
    if isinstance(value, tuple):
        return {"$": "tuple", "v": [encode(element, convert) for element in value]}
    if isinstance(value, (set, frozenset)):
        elements = sorted((encode(element, convert) for element in value), key=json.dumps)
        return {"$": "set", "v": elements}
    if isinstance(value, bytes):
        return {"$": "bytes", "v": base64.b64encode(value).decode()}
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return {"$": "numpy", "v": _array_text(value)}
    raise TypeError(
        f"a value of type {type(value).__name__}: not one of None, bool, int, float, str, bytes, "
        "list, tuple, set, dict, arrays of numpy and paths; write it to a file and pass its path"
    )


def decode(value: Any, convert: Callable[[str, Any], Any]) -> Any:
    """The value of such JSON; `convert(kind, value)` gives that of another kind.

    Raises ValueError, TypeError.
    """
    if isinstance(value, list):
        return [decode(element, convert) for element in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: decode(element, convert) for key, element in value.items()}
    kind, content = value["$"], value["v"]
    if kind == "float":
        return float(content)
    if kind == "dict":
        return dict(decode(content, convert))
    if kind == "tuple":
        return tuple(decode(content, convert))
    if kind == "set":
        return set(decode(content, convert))
    if kind == "bytes":
        return base64.b64decode(content)
    if kind == "numpy":
        stored = base64.b64decode(content)
        # `numpy.load` reads archives too, which expand without limit.
        if not stored.startswith(b"\x93NUMPY"):
            raise ValueError("not an array of numpy")
        numpy = importlib.import_module("numpy")
        return numpy.load(io.BytesIO(stored), allow_pickle=False)[()]
    return convert(kind, content)


def _array_text(value: Any) -> str:
    numpy = importlib.import_module("numpy")

    written = io.BytesIO()
    numpy.save(written, value, allow_pickle=False)
    return base64.b64encode(written.getvalue()).decode()


def _input(kind: str, path: Any) -> Any:
    if kind != "path":
        raise ValueError(f"a value of an unknown kind: {kind}")
    return pathlib.Path(path)


def _output(value: Any) -> Any:
    if not isinstance(value, pathlib.PurePath):
        return None
    top = pathlib.Path.cwd()
    path = pathlib.Path(value).resolve()
    if top not in path.parents:
        raise TypeError(f"{value}: not below the working directory, whose files are kept")
    return {"$": "output", "v": str(path.relative_to(top))}


def main(source: str, arguments: str, name: str) -> None:
    """Call the function, and write its result."""
    spec = importlib.util.spec_from_file_location("function", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Code that looks up the module of the function, such as dataclasses, finds it here.
    sys.modules["function"] = module
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    with open(arguments, encoding="utf-8") as file:
        given = json.load(file)
    args, kwargs = decode(given["args"], _input), decode(given["kwargs"], _input)
    value = encode(getattr(module, name)(*args, **kwargs), _output)
    with open(RESULT, "w", encoding="utf-8") as file:
        json.dump(value, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
