"""Whether programs of an image start: the shell script that tries them, and what its report says.

A program is called with `--version`, and with `--help` if that fails. Its answer does not matter,
but for signs that a part of it is missing: a library, a module, another program. Wrappers of Perl
and Java say so and still have the exit code 0.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

SECONDS: Final = 2
"""Time of one call; a program that still runs then has started."""
_OPTIONS = ("--version", "--help")
_MARK = re.compile(r"^=== (\d+) (\d+)$", re.MULTILINE)
_MISSING = re.compile(
    r"error while loading shared libraries|cannot open shared object file|Can't exec \"|"
    r"Can't locate \S+ in @INC|ModuleNotFoundError|ImportError|[Cc]ommand not found|"
    r": not found$|[Ee]xec format error|there is no package called|"
    r"(?:exec|env|execvp)[^\n]*: No such file or directory"
)
_NOT_EXECUTABLE, _NOT_FOUND, _SIGNAL = 126, 127, 128
# Signals of faults: ILL, ABRT, BUS, FPE, SEGV, SYS. Others come from outside.
_FAULTS = {4: "ILL", 6: "ABRT", 7: "BUS", 8: "FPE", 11: "SEGV", 31: "SYS"}
# Characters of a line in a remark.
_SHOWN = 150


def script(programs: Sequence[str]) -> str:
    """A script for `sh` that calls each program, and writes a report."""
    names = " ".join(map(shlex.quote, programs))
    return (
        f"cd /tmp; t=; command -v timeout >/dev/null 2>&1 && t='timeout -k 1 {SECONDS}'\n"
        "ulimit -f 2048; n=0\n"
        f"for p in {names}; do for o in {' '.join(_OPTIONS)}; do\n"
        '$t "$p" $o </dev/null >said 2>&1; c=$?\n'
        'printf "\\n=== %s %s\\n" $n $c; cat said; [ $c -eq 0 ] && break\n'
        "done; n=$((n + 1)); done\n"
    )


def faults(programs: Sequence[str], report: str) -> tuple[str, ...]:
    """A remark for each program that does not start, by the report of the script."""
    pieces = _MARK.split(report)
    remarks: dict[int, list[str]] = {}
    for number, code, output in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        remarks.setdefault(int(number), []).append(_fault(int(code), output))
    return tuple(
        f"{name}: does not start in the image: {remarks[number][0]}"
        for number, name in enumerate(programs)
        if remarks.get(number) and all(remarks[number])
    )


def _fault(code: int, output: str) -> str:
    """The fault that keeps a program from starting, or ""."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    missing = next((line for line in lines if _MISSING.search(line)), "")
    if missing:
        return missing[:_SHOWN]
    if code in (_NOT_EXECUTABLE, _NOT_FOUND):
        return (lines[-1] if lines else f"exit code {code}")[:_SHOWN]
    name = _FAULTS.get(code - _SIGNAL)
    return f"signal {name}" if name else ""
