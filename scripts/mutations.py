"""Draws random mutations of the source, and runs the tests of their package on each.

`mutations.py [--seed N] [--count N] [--package NAME ...] [--limit SECONDS] [--workers N]
[--json FILE] [--least SHARE] [--list]`

A mutation changes one expression or statement: a comparison, a condition, a constant, an
arithmetic operator, the order of two arguments, a returned value, or a statement that is left out.
Each is tried in a private copy of the tree (a git worktree). First the test files named like the
mutated module run, then the other test files of its package that import it, the nearest first. The
first failure ends the run; the failed test is then run without the mutation, where it must pass.

A mutation is `found` (a test fails), `survived` (none does), `timeout` (no answer within the
limit) or `unsteady` (the test fails without the mutation too). The exit status is 1 if a smaller
share than `--least` was found.

The limit counts processor time of pytest, so that a busy machine finds the same mutations; by the
clock a run takes at most five times as long.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import itertools
import json
import math
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("api", "dispatch", "supervisor", "store", "client")
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?: - .*)?$", re.MULTILINE)
# Seconds between SIGTERM and SIGKILL for tests that are stopped.
_GRACE: Final = 5.0
# Seconds between two looks whether a run has ended.
_POLL: Final = 0.05
# By the clock, a run takes at most so many times its limit of processor time.
_PATIENCE: Final = 5
# Exit codes of pytest: all passed, and no test was collected.
_PASSED: Final = (0, 5)
_COMPARISONS: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
# Calls that only inform people: leaving them out changes no behaviour.
_SAYING: Final = ("_logger.", "logging.", "event(")


@dataclass(frozen=True)
class Mutation:
    """One change: the source between two positions, (line, column) from 1 and 0, and its
    replacement.
    """

    path: str
    kind: str
    begin: tuple[int, int]
    end: tuple[int, int]
    before: str
    after: str

    def apply(self, source: str) -> str:
        """The mutated source. Columns count bytes of UTF-8, as those of `ast` do."""
        data, starts = source.encode(), _line_starts(source)
        begin, end = (starts[line - 1] + column for line, column in (self.begin, self.end))
        return (data[:begin] + self.after.encode() + data[end:]).decode()

    def __str__(self) -> str:
        before = " ".join(self.before.split())
        return f"{self.path}:{self.begin[0]} {self.kind}: {before[:70]}  ->  {self.after[:70]}"


class Verdict(StrEnum):
    """What the tests say of a mutation."""

    FOUND = "found"
    SURVIVED = "survived"
    TIMEOUT = "timeout"
    UNSTEADY = "unsteady"


@dataclass(frozen=True)
class Trial:
    """The result of one mutation; `seconds` by the clock, `processor` those of its tests."""

    mutation: Mutation
    verdict: Verdict
    seconds: float
    processor: float
    test: str = ""

    def __str__(self) -> str:
        times = f"{self.seconds:5.1f} s ({self.processor:.1f} s of a processor)"
        return f"{self.verdict:8} {times} {self.mutation} {self.test}".rstrip()


def _line_starts(source: str) -> list[int]:
    """Positions of the lines in the bytes of the source."""
    return [0, *itertools.accumulate(map(len, source.encode().splitlines(keepends=True)))]


def mutations_of(path: str, source: str) -> list[Mutation]:
    """All mutations of one module."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return finder.mutations


class _Finder(ast.NodeVisitor):
    """Walks over the functions of a module; annotations and decorators are left alone."""

    def __init__(self, path: str, source: str) -> None:
        self.mutations: list[Mutation] = []
        self._path = path
        self._data = source.encode()
        self._starts = _line_starts(source)
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._depth += 1
        for statement in node.body:
            self.visit(statement)
        self._depth -= 1

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if not any("Protocol" in ast.unparse(base) for base in node.bases):
            for statement in node.body:
                self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            operator = _COMPARISONS[type(node.ops[0])]()
            self._add("comparison", node, ast.Compare(node.left, [operator], node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        operator = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add("and/or", node, ast.BoolOp(operator, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add("not", node, node.operand)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = _OPERATORS.get(type(node.op))
        if other is not None and not _is_text(node.left) and not _is_text(node.right):
            self._add("operator", node, ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("constant", node, ast.Constant(not node.value))
        elif isinstance(node.value, int | float):
            self._add("constant", node, ast.Constant(node.value + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone: positions inside of them are not exact before Python 3.12."""

    def visit_Call(self, node: ast.Call) -> None:
        arguments = node.args
        # Of the checks of types each exchange is an error at once; of `max` and `min` none changes
        # anything.
        is_plain = not _begins(node, *_SAYING, "isinstance(", "issubclass(", "max(", "min(")
        if (
            is_plain
            and len(arguments) > 1
            and not any(isinstance(argument, ast.Starred) for argument in arguments[:2])
            and ast.dump(arguments[0]) != ast.dump(arguments[1])
        ):
            swapped = [arguments[1], arguments[0], *arguments[2:]]
            self._add("arguments", node, ast.Call(node.func, swapped, node.keywords))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        is_none = isinstance(node.value, ast.Constant) and node.value.value is None
        if node.value is not None and not is_none:
            self._add("returned value", node, ast.Return(ast.Constant(None)))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._delete(node)
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            self._delete(node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._delete(node)
        self.generic_visit(node)

    def _delete(self, node: ast.stmt) -> None:
        if not (isinstance(node, ast.Expr) and _begins(node.value, *_SAYING)):
            self._add("left out", node, ast.Pass())

    def _negate(self, test: ast.expr) -> None:
        # Comparisons and `not` are mutated by themselves.
        if ast.unparse(test) != "TYPE_CHECKING" and not isinstance(test, ast.Compare | ast.UnaryOp):
            self._add("condition", test, ast.UnaryOp(ast.Not(), test))

    def _add(self, kind: str, node: ast.expr | ast.stmt, other: ast.AST) -> None:
        if not self._depth or node.end_lineno is None or node.end_col_offset is None:
            return
        text = ast.unparse(ast.fix_missing_locations(other))
        begin = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        self.mutations.append(
            Mutation(
                path=self._path,
                kind=kind,
                begin=(node.lineno, node.col_offset),
                end=(node.end_lineno, node.end_col_offset),
                before=self._data[begin:end].decode(),
                # An operand of a larger expression keeps its place.
                after=f"({text})" if isinstance(node, ast.expr) else text,
            )
        )


def _begins(node: ast.expr, *beginnings: str) -> bool:
    """Whether the source of a call begins with one of these texts."""
    return isinstance(node, ast.Call) and f"{ast.unparse(node.func)}(".startswith(beginnings)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def draw(root: Path, packages: Sequence[str], *, count: int, seed: int) -> list[Mutation]:
    """So many mutations, of each package in turn, the same for the same seed and source."""
    chance = random.Random(seed)
    stocks = []
    for package in packages:
        paths = sorted((root / "src" / "lading" / package).rglob("*.py"))
        stock = [
            mutation
            for path in paths
            for mutation in mutations_of(str(path.relative_to(root)), path.read_text())
        ]
        chance.shuffle(stock)
        stocks.append(stock)
    drawn = [stock[number] for number in range(count) for stock in stocks if number < len(stock)]
    return drawn[:count]


class TestFiles:
    """The test files of packages, and by how many imports each is away from a module."""

    __test__ = False

    def __init__(self, root: Path) -> None:
        self._paths = {
            _module_name(path.relative_to(base)): path.relative_to(root)
            for base, folder in ((root / "src", "lading"), (root, "tests"))
            for path in (base / folder).rglob("*.py")
        }
        self._importers: dict[str, set[str]] = {}
        for name, path in self._paths.items():
            for imported in self._imports(name, (root / path).read_text()):
                self._importers.setdefault(imported, set()).add(name)

    def chosen(self, source: str) -> tuple[list[str], list[str]]:
        """The test files named like a module, and the others of its package that import it: first
        the ones of its folder, and of these the ones that share a word of its name.
        """
        path = Path(source).relative_to("src/lading")
        folder = Path("tests") / path.parts[0]
        near = Path("tests") / path.parent
        named: list[str] = []
        others: list[str] = []
        words = _words(path)

        def rank(item: tuple[str, int]) -> tuple[bool, bool, int]:
            # Tests of a server import all of it: which of them are near, their names and folders
            # tell.
            name, distance = item
            test = self._paths[name]
            return test.parent != near, not words & _words(test), distance

        for name, _ in sorted(self._distances(source).items(), key=rank):
            test = self._paths[name]
            if not test.name.startswith("test_") or not test.is_relative_to(folder):
                continue
            is_named = test.parent == near and test.name.startswith(f"test_{path.stem}")
            (named if is_named else others).append(str(test))
        return named, others

    def _distances(self, source: str) -> dict[str, int]:
        begin = _module_name(Path(source).relative_to("src"))
        distances, waiting = {begin: 0}, deque([begin])
        while waiting:
            name = waiting.popleft()
            for importer in sorted(self._importers.get(name, ())):
                if importer not in distances:
                    distances[importer] = distances[name] + 1
                    waiting.append(importer)
        return distances

    def _imports(self, name: str, source: str) -> Iterator[str]:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = name.split(".")[: -node.level] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                names = [f"{base}.{alias.name}" for alias in node.names] + [base]
            else:
                continue
            yield from (imported for imported in names if imported in self._paths)


def _words(path: Path) -> set[str]:
    """The words of a file's name, in the singular."""
    return {word.removesuffix("s") for word in path.stem.removeprefix("test_").split("_")}


def _module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


class TestRuns:
    """Runs of pytest in a tree. Whatever a run leaves is killed."""

    __test__ = False

    def __init__(self, tree: Path, limit: float) -> None:
        self._tree, self._limit = tree, limit
        self.processor = 0.0
        """Seconds of a processor that all runs took."""
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End the present run, and let none follow."""
        self._is_stopped = True
        if self._process is not None:
            _end(self._process)

    def run(
        self, tests: Sequence[str], *, processor: float, until: float
    ) -> tuple[int | None, str]:
        """The exit code and the output; None when there is no answer within so many seconds of a
        processor, or by the time `until`.
        """
        most = max(1, math.ceil(processor))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": f"{self._tree / 'src'}:{self._tree}"}
        with (
            tempfile.TemporaryFile("w+") as output,
            subprocess.Popen(
                command,
                cwd=self._tree,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            ) as process,
        ):
            self._process = process
            # SIGKILL: pytest would take any other signal for a failure.
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (most, most))
            try:
                code = _exit_code(process, until)
                self.processor += _processor_seconds(process.pid)
            finally:
                _end(process)
            output.seek(0)
            is_over = self._is_stopped or code == -signal.SIGKILL
            return None if is_over else code, output.read()

    def try_mutation(self, mutation: Mutation, files: TestFiles) -> Trial:
        """Mutate the tree, run the tests, and restore it."""
        path = self._tree / mutation.path
        source = path.read_text()
        named, others = files.chosen(mutation.path)
        began = time.monotonic()
        before = self.processor
        verdict, test = Verdict.SURVIVED, ""
        _write(path, mutation.apply(source))
        try:
            for tests in filter(None, (named, others)):
                left = self._limit - (self.processor - before)
                until = began + self._limit * _PATIENCE
                code, output = self.run(tests, processor=left, until=until)
                if code is None:
                    verdict = Verdict.TIMEOUT
                elif code not in _PASSED:
                    verdict = Verdict.FOUND
                    failures = _FAILED.findall(output)
                    test = failures[-1] if failures else tests[0]
                if verdict is not Verdict.SURVIVED:
                    break
        finally:
            _write(path, source)
        seconds, processor = time.monotonic() - began, self.processor - before
        if verdict is Verdict.FOUND:
            until = time.monotonic() + self._limit * _PATIENCE
            code, _ = self.run([test], processor=self._limit, until=until)
            verdict = Verdict.FOUND if code in _PASSED else Verdict.UNSTEADY
        return Trial(mutation, verdict, seconds, processor, test)


def _write(path: Path, source: str) -> None:
    path.write_text(source)
    # Python knows a changed file by its length and its time in seconds, which may be the same.
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the session of a process: it, and what it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            continue


def _exit_code(process: subprocess.Popen[bytes], until: float) -> int | None:
    """The exit code of a process, which is left for `wait`; None if it still runs at the time
    `until`.
    """
    while True:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        if time.monotonic() >= until:
            return None
        time.sleep(_POLL)


def _processor_seconds(pid: int) -> float:
    """What a process that is not reaped yet, and its children that are, took of a processor."""
    # The name, in parentheses, may have spaces. Source: proc(5), utime to cstime.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def copies(count: int) -> Iterator[list[Path]]:
    """Private copies of the committed tree, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="lading-mutations-") as folder:
        trees = [Path(folder) / str(number) for number in range(count)]
        try:
            for tree in trees:
                _git("worktree", "add", "--quiet", "--detach", str(tree))
            yield trees
        finally:
            for tree in trees:
                # Twice: git locks a copy that it has not completed.
                command = ["git", "-C", str(ROOT), "worktree", "remove", "--force", "--force"]
                subprocess.run([*command, str(tree)], check=False, capture_output=True)
                shutil.rmtree(tree, ignore_errors=True)
            _git("worktree", "prune")


def carry_out(mutations: Sequence[Mutation], *, workers: int, limit: float) -> Iterator[Trial]:
    """Try all mutations, so many at a time; each result as soon as it is there."""
    files = TestFiles(ROOT)
    with copies(workers) as trees:
        free: queue.SimpleQueue[TestRuns] = queue.SimpleQueue()
        everything = [TestRuns(tree, limit) for tree in trees]
        for runs in everything:
            free.put(runs)

        def work(mutation: Mutation) -> Trial:
            runs = free.get()
            try:
                return runs.try_mutation(mutation, files)
            finally:
                free.put(runs)

        with ThreadPoolExecutor(workers) as pool:
            try:
                yield from pool.map(work, mutations)
            finally:
                for runs in everything:
                    runs.stop()
                pool.shutdown(cancel_futures=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument("--limit", type=float, default=60.0, help="processor seconds for each one")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be found")
    parser.add_argument("--list", action="store_true", help="show the mutations only")
    options = parser.parse_args(arguments)
    packages = options.package or PACKAGES
    if _git("status", "--porcelain"):
        print("commit or stash all changes first: copies are made of the commit", file=sys.stderr)
        return 2
    mutations = draw(ROOT, packages, count=options.count, seed=options.seed)
    if options.list:
        print(*mutations, sep="\n")
        return 0
    trials = []
    for trial in carry_out(mutations, workers=options.workers, limit=options.limit):
        trials.append(trial)
        print(trial, flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(one) for one in trials], indent=1))
    found = sum(trial.verdict is Verdict.FOUND for trial in trials)
    print(f"{found} of {len(trials)} were found")
    return 0 if found >= options.least * len(trials) else 1


if __name__ == "__main__":
    # Ended by its owner, it removes its copies as ever.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
