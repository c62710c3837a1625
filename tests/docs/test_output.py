"""The comparison of shown and printed output, and the reading of pages."""

from __future__ import annotations

import pytest

from tests.docs.output import Bindings
from tests.docs.pages import blocks

pytestmark = pytest.mark.quick

ONE, TWO = "hlvzl-xvhdp-imwx6o8zchoug2z", "aaaaa-xvhdp-000000000000000"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("ready in 0.6 s; from here", "ready in 12 s; from here"),
        ("added 13.3 MiB, tools:1", "added 980 KiB, tools:1"),
        ("a\n   long line", "a long line"),
        ("first\n...\nlast", "first\n1\n2\nlast"),
        ("first\n...\nlast", "first\nlast"),
        ("finished 0.34 s ago", "finished 1 min 3 s ago"),
        ("sha256:0b52f0123456789 x", "sha256:0123456789abc x"),
        ("expires 2027-11-24  for", "expires 2027-12-01  for"),
        ("at 2026-11-21T16:09:16.1Z", "at 2027-01-01T00:00:00.000000000Z"),
    ],
)
def test_what_may_differ(shown: str, printed: str) -> None:
    assert Bindings().match(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [("exit code 0", "exit code 1"), ("a", "a b"), (f"{ONE} {ONE}", f"{ONE} {TWO}")],
)
def test_what_may_not(shown: str, printed: str) -> None:
    assert not Bindings().match(shown, printed)


def test_identifiers_are_bound() -> None:
    bindings = Bindings()
    assert bindings.match(f"lading: {ONE} submitted", f"lading: {TWO} submitted")
    assert bindings.command(f"lading request why {ONE}") == f"lading request why {TWO}"
    assert not bindings.match(ONE, "bbbbb-xvhdp-000000000000000")
    with pytest.raises(ValueError, match="a uuid that no command of the page has printed"):
        bindings.command("lading request why zzzzz-xvhdp-000000000000009")


PAGE = """
<!-- not run: needs an
account -->
```console
$ a
```

<!-- with slurm, long -->

```console
$ cat <<END
$ no prompt
END
out
$ one \\
    two
$ echo 'open
quote'
```
"""


def test_blocks_steps_and_marks() -> None:
    first, second = blocks("x.md", PAGE)
    assert (first.reason, first.is_long, first.line) == ("needs an account", False, 4)
    assert (second.reason, second.is_long, second.place) == ("", True, "x.md#slurm")
    assert [(one.command, one.output) for one in second.steps] == [
        ("cat <<END\n$ no prompt\nEND", "out"), ("one \\\n    two", ""), ("echo 'open\nquote'", ""),
    ]  # fmt: skip
    assert second.steps[1].line == 15
