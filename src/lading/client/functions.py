"""Python functions in containers: `@site.function`, in the manner of `joblib.Memory`.

    @site.function(image="python:3.12")
    def count(path, word):
        return path.read_text().count(word)

    count(Path("book.txt"), word="whale")

The source of the function, of the functions of its module that it calls, and its arguments are
inputs of a container request: an equal call has its value already, whichever user made it.
Otherwise the function reports the differences from the nearest earlier call. Values are JSON (see
`lading.client.function_runner`); nothing is pickled.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import dis
import functools
import hashlib
import inspect
import json
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata, resources
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.function_runner import RESULT, decode, encode
from lading.client.images.from_host import this_host
from lading.client.images.links import list_images, register
from lading.client.images.sources import normalise_programs
from lading.client.runs import Output, Run, RunFuture, RunSite, Source, follow, plain_line
from lading.core.errors import Invalid, LadingError, Malformed

_Parameters = ParamSpec("_Parameters")
_Value = TypeVar("_Value")
# Attributes of a mount that an explanation may name: all of them are the content of an input.
_OF_INPUT = "portable_data_hash|path|kind|content"
_PLACE = "/lading"
_RUNNER, _FUNCTION, _ARGUMENTS = f"{_PLACE}/runner.py", f"{_PLACE}/function.py", f"{_PLACE}/args"
_CONSTANTS = (str, bytes, int, float, bool, type(None))
_LONGEST = 60
"""Characters of an argument that a message shows."""
_MOST_RESULT = 1 << 30
"""Bytes of a value that are read; more is returned as a file."""


class FunctionSite(RunSite, Protocol):
    """The part of a `client.site.Site` that its functions use."""

    def run(self, command: Sequence[str], **options: Any) -> Run:
        """Submit a command, and return at once."""

    def follow(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the loop of the site. Does not wait."""


class RemoteFunction(Generic[_Parameters, _Value]):
    """A Python function whose calls are container requests. `Site.function` makes it.

    A call waits for the value; `submit` does not. Arguments and values are None, numbers, text,
    bytes, lists, tuples, sets, dictionaries and arrays of numpy. A path or the output of a run is
    mounted, and the function has its path; a path below the working directory that the function
    returns becomes an output.
    """

    def __init__(
        self,
        site: FunctionSite,
        function: Callable[_Parameters, _Value],
        *,
        image: str | None = None,
        python: str | None = None,
        verbose: bool = True,
        **options: Any,
    ) -> None:
        self._site, self._image, self._options = site, image, options
        self.python = python or (sys.executable if image is None else "python3")
        """The interpreter in the image."""
        self._is_verbose = verbose
        self._name = function.__name__
        try:
            self._signature = inspect.signature(function)
        except ValueError as error:
            # Few functions that are written in C tell their parameters to nobody.
            raise Invalid(
                f"{self._name}: its parameters are not known; call it in one of yours"
            ) from error
        self.source = source_of(function)
        """The executed text: the function and the parts of its module that it needs."""
        functools.update_wrapper(self, function)

    def __call__(self, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Value:
        """Wait for the value. Raises RunFailed with the traceback of the function; Invalid for
        arguments that cannot be passed.
        """
        return self.submit(*args, **kwargs).result()

    def submit(self, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> RunFuture[_Value]:
        """Submit a call, and return at once. Raises Invalid for arguments that cannot be passed."""
        bound = self._signature.bind(*args, **kwargs)
        # A default that is given or left out is the same call, and must have the same arguments.
        bound.apply_defaults()
        inputs = dict[str, Source]()
        given = {"args": list(bound.args), "kwargs": bound.kwargs}
        try:
            encoded = encode(given, functools.partial(_mounted, inputs))
        except TypeError as error:
            raise Invalid(f"{self._name}: {error}") from error
        if self._image is None:
            self._image = self._site.call(environment_image(self._site.api, self._site.blocks))
        runner = resources.files("lading.client").joinpath("function_runner.py")
        run = self._site.run(
            [self.python, _RUNNER, _FUNCTION, _ARGUMENTS, self._name],
            image=self._image,
            inputs={
                **inputs,
                _RUNNER: runner.read_bytes(),
                _FUNCTION: self.source.encode(),
                # Sorted: the text is part of the recipe, and equal arguments have to give equal
                # texts.
                _ARGUMENTS: json.dumps(encoded, sort_keys=True).encode(),
            },
            **{"name": self._name, **self._options},
        )
        future = RunFuture[_Value](run)
        self._site.follow(future.settle(self._value(run)))
        return future

    async def _value(self, run: Run) -> _Value:
        uuid = await follow(run.placed)
        if self._is_verbose:
            why = await run.site.api.action("container_requests", uuid, "why", method="GET")
            if reason := explain(self._name, why, self._signature):
                # Paths and arguments of another user's container are parts of it.
                sys.stderr.write(f"{plain_line(reason)}\n")
        await run
        result = await run.read(RESULT, most=_MOST_RESULT)

        def output(kind: str, path: Any) -> Output:
            # The value comes from a container: it may name files of its own output, and nothing
            # else.
            if kind != "output" or not isinstance(path, str):
                raise Invalid(f"{self._name}: a value of an unknown kind: {_shown(kind)}")
            return run.output[path]

        # In a thread: other calls go on while a large value is read.
        return cast(_Value, await asyncio.to_thread(self.decoded, result, output, uuid))

    def decoded(self, text: bytes, output: Callable[[str, Any], Output], uuid: str) -> Any:
        """The value in the text of a result, which a stranger's container may have written.
        `output` gives values of other kinds, `uuid` is that of the request. Raises Malformed,
        Invalid.
        """
        try:
            return decode(json.loads(text), output)
        except LadingError:
            raise
        # numpy and the decoders have no common class of errors for damaged values.
        except Exception as error:
            raise Malformed(
                f"{self._name}: {RESULT} of {uuid} holds no value of a function "
                f"({type(error).__name__}); call it again with use_existing=False"
            ) from error


def _mounted(inputs: dict[str, Source], value: object) -> Record | None:
    """The JSON of a file or directory, which becomes an input; None for others."""
    if isinstance(value, Run):
        value = value.output
    if not isinstance(value, (Path, Output)):
        return None
    path = f"{_PLACE}/in/{len(inputs)}/{value.name or 'files'}"
    inputs[path] = value
    return {"$": "path", "v": path}


def source_of(function: Callable[..., Any]) -> str:
    """The text of a module with this function, and with the parts of its own module that it needs:
    imports, constants, and functions. Raises Invalid when the source cannot be found, or needs
    something else.
    """
    found: dict[str, str] = {}
    _collect(function, found)
    # Sorted by name, so that the order of definitions in the module does not count for reuse;
    # annotations are never evaluated, so that names in them need not be there.
    lines = ["from __future__ import annotations", *(found[name] for name in sorted(found))]
    return "\n\n".join(lines) + "\n"


def _collect(function: Callable[..., Any], sources: dict[str, str]) -> None:
    plain = inspect.unwrap(function)
    name = getattr(plain, "__name__", repr(plain))
    if isinstance(plain, BuiltinFunctionType) and isinstance(plain.__self__, ModuleType):
        # One of a module that is written in C, such as math.sqrt.
        sources[name] = f"from {plain.__self__.__name__} import {name}"
        return
    if not isinstance(plain, FunctionType):
        raise Invalid(f"{name}: not a function that is written in Python")
    # The value of such a name may change from call to call without any change of the source.
    if plain.__code__.co_freevars:
        missing = ", ".join(plain.__code__.co_freevars)
        raise Invalid(f"{name}: uses {missing} of the function around it; pass it as an argument")
    try:
        source = textwrap.dedent(inspect.getsource(plain))
        definition = ast.parse(source).body[0]
    except (OSError, SyntaxError, IndexError) as error:
        raise Invalid(
            f"{name}: its source is not found; define it in a file or notebook"
        ) from error
    if not isinstance(definition, ast.FunctionDef):
        raise Invalid(f"{name}: write it with `def`")
    # Without its decorators, of which this is one.
    sources[name] = "\n".join(source.splitlines()[definition.lineno - 1 : definition.end_lineno])
    defaults = [
        default for default in (*definition.args.defaults, *definition.args.kw_defaults) if default
    ]
    names = {
        node.id for default in defaults for node in ast.walk(default) if isinstance(node, ast.Name)
    } | set(_globals(plain.__code__))
    for needed in sorted(names - set(sources)):
        if needed in plain.__globals__:
            _need(plain, needed, plain.__globals__[needed], sources)
        elif not hasattr(builtins, needed):
            raise Invalid(f"{name}: {needed} is not defined")


def _need(function: FunctionType, name: str, value: object, sources: dict[str, str]) -> None:
    home = getattr(value, "__module__", None)
    own = getattr(value, "__qualname__", "")
    if isinstance(value, ModuleType):
        sources[name] = f"import {value.__name__} as {name}"
    elif home == function.__module__ and callable(value) and not isinstance(value, type):
        if own != name:
            raise Invalid(f"{function.__name__}: call {own} by its own name, not as {name}")
        _collect(value, sources)
    # An object of another module, imported by name; a method or a nested function has a dot in its
    # name.
    elif home and home != function.__module__ and own.isidentifier():
        sources[name] = f"from {home} import {own} as {name}"
    elif type(value) in _CONSTANTS:
        sources[name] = f"{name} = {value!r}"
    else:
        raise Invalid(
            f"{function.__name__}: uses {name} of its module, which is not an import, a function "
            "or a constant; pass it as an argument"
        )


def _globals(code: CodeType) -> Iterator[str]:
    """The names that the code, and the code in it, looks up in its module."""
    for instruction in dis.get_instructions(code):
        # From the bytecode, not the syntax: it knows which names are local, also in comprehensions.
        if instruction.opname == "LOAD_GLOBAL":
            yield str(instruction.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner)


def explain(name: str, why: Mapping[str, Any], signature: inspect.Signature) -> str:
    """One line with the reason why a call has to be computed; "" if its value is stored."""
    decision = why.get("decision")
    if not decision or decision["decision"] != "new":
        return ""
    nearest = decision.get("nearest")
    differences = nearest["differences"] if nearest else ()
    # The command names the function: with another one the nearest call is one of another function.
    if nearest is None or any(
        difference["field"].startswith("command") for difference in differences
    ):
        return f"{name}: computed, there is no earlier call"
    if not differences:
        return f"{name}: computed again, {decision['reason']}"
    reasons = [
        reason for difference in differences for reason in _difference(difference, signature)
    ]
    return f"{name}: computed, {'; '.join(dict.fromkeys(reasons))}"


def _difference(difference: Mapping[str, Any], signature: inspect.Signature) -> Iterator[str]:
    field = str(difference["field"])
    if _FUNCTION in field:
        yield "its source has changed"
    elif _RUNNER in field:
        yield "another version of Lading"
    elif _ARGUMENTS in field:
        try:
            yield from _arguments(
                _content(difference["request"]), _content(difference["container"]), signature
            )
        except RecursionError:
            yield "other arguments"
    elif match := re.search(rf"{_PLACE}/in/\d+/(.*?)(\.({_OF_INPUT}))?$", field):
        yield f"another content of {match[1]}"
    else:
        yield f"another {field.replace('container_image', 'image')}"


def _arguments(ours: Any, theirs: Any, signature: inspect.Signature) -> Iterator[str]:
    if ours is None or theirs is None:
        yield "other arguments"
        return
    names = list(signature.parameters)
    # Further positional arguments have no names; they are compared below.
    before = dict(zip(names, theirs["args"], strict=False)) | theirs["kwargs"]
    now = dict(zip(names, ours["args"], strict=False)) | ours["kwargs"]
    for name, value in now.items():
        if value != before.get(name):
            yield f"{name} is {_short(value)}, before {_short(before.get(name))}"
    if list(ours["args"])[len(names) :] != list(theirs["args"])[len(names) :]:
        yield "other arguments"


def _content(difference: Any) -> Any:
    """The arguments of a call, {"args", "kwargs"}; None for a text that has none."""
    text: Any = difference.get("content") if isinstance(difference, dict) else difference
    try:
        call = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    # The command of the container of another user need not be one of a function.
    is_call = (
        isinstance(call, dict)
        and isinstance(call.get("args"), list)
        and isinstance(call.get("kwargs"), dict)
    )
    return call if is_call else None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _shown(kind: Any) -> str:
    return kind[:_LONGEST] if isinstance(kind, str) and kind.isprintable() else _short(kind)


async def environment_image(
    api: ApiClient, blocks: BlockClient, python: str = sys.executable
) -> str:
    """The portable data hash of an image of the Python environment that runs this: `python` with
    its packages. It is made when the user has none for these versions: one that another user has
    named so may hold other programs.

    Packages that are installed in editable mode are not in it. Raises Invalid.
    """
    name = f"python-environment:{_fingerprint(python)}"
    user = await api.get("users", "current")
    for image in await list_images(api, named_by=str(user["uuid"])):
        if name in image.names:
            return image.pdh
    sys.stderr.write(f"adding an image of {python} with its packages, once\n")
    with tempfile.TemporaryDirectory(prefix="lading-image-") as folder:
        host = await asyncio.to_thread(this_host, os.environ)
        normal = await normalise_programs([python], Path(folder), host=host)
        done = await register(api, blocks, normal, names=[name], now=datetime.now(UTC))
    return done.image.pdh


def _fingerprint(python: str) -> str:
    """A hash of the interpreter, and of the names and versions of its packages."""
    # Versions, not contents: to hash gigabytes of packages would take longer than most calls.
    packages = sorted(
        f"{distribution.name} {distribution.version}" for distribution in metadata.distributions()
    )
    text = "\n".join((sys.version, python, *packages))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
