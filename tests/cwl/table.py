"""The table of cases, `cases.yml`, made into what `cwltest` reads.

In our table a file is `{file: NAME, text: CONTENT}` and a directory `{folder: NAME, listing:
[...]}`, so that a reader sees what is expected; `cwltest` gets sizes and checksums. NAME is the
basename: where several files of one name come into one collection, their places in it differ.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha1
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
Case = dict[str, Any]


def read_cases(*, tag: str = "") -> list[Case]:
    """Every case (that has the tag), as it stands in the table."""
    cases: list[Case] = yaml.safe_load((HERE / "cases.yml").read_text())
    return [case for case in cases if not tag or tag in case.get("tags", ())]


def write_table(path: Path, names: Collection[str]) -> None:
    """Write the cases of these names as `cwltest` reads them to the file `path`."""
    cases = [_translate(case) for case in read_cases() if case["id"] in names]
    path.write_text(yaml.safe_dump(cases, sort_keys=False))


def _translate(case: Case) -> Case:
    tool = HERE / case["tool"]
    doc = next(
        line.removeprefix("doc: ")
        for line in tool.read_text().splitlines()
        if line.startswith("doc: ")
    )
    translated = {**case, "doc": doc, "tool": str(tool)}
    if "job" in case:
        translated["job"] = str(HERE / case["job"])
    if "output" in case:
        translated["output"] = _expected(case["output"])
    return translated


def _expected(value: Any) -> Any:
    match value:
        case {"file": str(name), "text": str(text), **more}:
            data = text.encode()
            checksum = f"sha1${sha1(data, usedforsecurity=False).hexdigest()}"
            found = {"class": "File", "size": len(data), "checksum": checksum}
            found |= {"basename": name} if name != "Any" else {}
            return found | {key: _expected(one) for key, one in more.items()}
        case {"folder": str(name), "listing": list(listing)}:
            return {
                "class": "Directory",
                "basename": name,
                "listing": [_expected(one) for one in listing],
            }
        case dict():
            return {key: _expected(one) for key, one in value.items()}
        case list():
            return [_expected(one) for one in value]
    return value
