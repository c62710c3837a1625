"""Checks what a release needs, and prints a table: `make release-check`.

    release_check.py                all checks
    release_check.py --quick        without the clean root, which takes minutes
    release_check.py --untagged     before the tag is made

Leaves in dist/ what a release consists of: wheel, sdist, Debian package, the list of all packages
in it (CycloneDX) and SHA256SUMS.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = ROOT / "build" / "release" / "bin"
# Licences that a distribution under the Apache License 2.0 may come with, as separate packages.
ALLOWED = re.compile(
    r"Apache|MIT|BSD|ISC|PSF|Python Software Foundation|MPL|Mozilla|EPL|Eclipse|Unlicense|0BSD|LGPL"
    r"|Lesser|Zlib|HPND",
    re.IGNORECASE,
)
# Stated in the metadata in a form that the list of licences (SPDX) does not have.
STATED = {"aiodocker": "Apache-2.0", "htmx-ext-sse": "0BSD", "protobuf": "BSD-3-Clause"}
ASSETS = ("htmx.min.js", "sse.min.js", "uPlot.iife.min.js", "xterm.js")


class Fault(Exception):
    """A check found something wrong."""


def main() -> int:
    """Run the checks in their order; 1 when one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--untagged", action="store_true")
    options = parser.parse_args()
    checks: list[tuple[str, Callable[[], str]]] = [
        ("version", check_version),
        ("changelog", check_changelog),
        ("work tree", check_work_tree),
        ("reproducible", check_reproducible),
        ("wheel", check_wheel),
        ("wheel of the client", check_client_wheel),
        ("twine", check_twine),
        ("licences and SBOM", check_dependencies),
        ("Debian package", check_debian),
    ]
    if not options.untagged:
        checks.insert(3, ("tag", check_tag))
    if not options.quick:
        checks.append(("clean root", check_clean_root))
    checks.append(("checksums", check_sums))
    is_bad = False
    for name, check in checks:
        try:
            verdict, found = "ok", check()
        except Fault as error:
            is_bad, verdict, found = True, "FAILED", str(error)
        print(f"{name:19} {verdict:7} {found}", flush=True)
    return 1 if is_bad else 0


def version() -> str:
    """The version that the source has."""
    text = (ROOT / "src/lading/__init__.py").read_text()
    return re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]


def check_version() -> str:
    """One version everywhere, in the form of PEP 440."""
    wanted = version()
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", wanted):
        raise Fault(f"{wanted} is not a version of a release")
    for path in sorted((ROOT / "plugins").glob("*/pyproject.toml")):
        found = re.findall(r'^version = "(.+)"$', path.read_text(), re.MULTILINE)[0]
        if found != wanted:
            raise Fault(f"{path.relative_to(ROOT)} has {found}, src/lading has {wanted}")
    return wanted


def check_changelog() -> str:
    """The changelog has a section of the version with a date, and nothing is left unreleased."""
    text = (ROOT / "CHANGELOG.md").read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    unreleased = [one for one in sections if one.startswith("Unreleased")]
    if unreleased and "- " in unreleased[0]:
        raise Fault("entries stand under Unreleased; move them to a section of the version")
    if not re.match(rf"{re.escape(version())} (- |\()\d{{4}}-\d\d-\d\d", sections[0]):
        raise Fault(f"the first section is not '{version()} - DATE'")
    return sections[0].splitlines()[0]


def check_work_tree() -> str:
    """Nothing is changed that is not committed."""
    if changed := _out("git", "status", "--porcelain"):
        raise Fault(f"{len(changed.splitlines())} files are changed and not committed")
    return _out("git", "rev-parse", "--short", "HEAD")


def check_tag() -> str:
    """The commit has the tag of its version."""
    wanted = f"v{version()}"
    if wanted not in _out("git", "tag", "--points-at", "HEAD").split():
        raise Fault(f"no tag {wanted} on this commit; git tag --annotate {wanted}")
    return wanted


def check_reproducible() -> str:
    """Two builds, in another directory and with another umask, give the same bytes."""
    built = _files(_run("scripts/build.sh", str(DIST)))
    with tempfile.TemporaryDirectory(prefix="lading-release-") as folder:
        clone = Path(folder) / "another directory"
        clone.mkdir()
        # Files known to git, with their present contents.
        _run("bash", "-c", f"umask 077; git ls-files -z | xargs -0 cp --parents -t '{clone}'")
        for name in (".git", "build"):
            (clone / name).symlink_to(ROOT / name)
        vendor = "src/lading/web/static/vendor"
        (clone / vendor).symlink_to(ROOT / vendor)
        again = _files(_run("scripts/build.sh", f"{folder}/out", cwd=clone))
        for one, other in zip(built, again, strict=True):
            if _digest(one) != _digest(other):
                raise Fault(f"{one.name} differs between two builds")
    return ", ".join(f"{one.name} {_digest(one)[:12]}" for one in built)


def check_wheel() -> str:
    """The wheel of this processor has the scripts of the page, the manual page and lading-start."""
    (wheel,) = DIST.glob(f"lading-{version()}-*_{os.uname().machine}.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    wanted = [f"lading/web/static/vendor/{one}" for one in ASSETS]
    wanted.append(f"lading-{version()}.data/data/share/man/man1/lading.1")
    wanted.append("lading/supervisor/starter/lading-start")
    if missing := [one for one in wanted if one not in names]:
        raise Fault(f"not in the wheel: {', '.join(missing)}")
    return f"{len(names)} files, {wheel.stat().st_size >> 10} KiB"


def check_client_wheel() -> str:
    """The wheel for all systems is the client alone."""
    (wheel,) = DIST.glob(f"lading-{version()}-*-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for package in ("client", "cli", "core"):
        if f"lading/{package}/__init__.py" not in names:
            raise Fault(f"not in the wheel: lading/{package}")
    for package in ("api", "supervisor", "wiring", "web"):
        if any(name.startswith(f"lading/{package}/") for name in names):
            raise Fault(f"of the server, and in the wheel for all systems: lading/{package}")
    return f"{len(names)} files, {wheel.stat().st_size >> 10} KiB"


def check_twine() -> str:
    """The metadata is what a package index accepts."""
    found = DIST.glob(f"lading-{version()}*")
    files = sorted(str(one) for one in found if one.name.endswith((".whl", ".tar.gz")))
    _run(str(TOOLS / "twine"), "check", "--strict", *files)
    return f"{len(files)} files passed"


def check_dependencies() -> str:
    """Writes the SBOM of an installation with all extras; every licence in it is known and
    allowed.
    """
    (wheel,) = DIST.glob(f"lading-{version()}-*_{os.uname().machine}.whl")
    target = DIST / f"lading-{version()}.cdx.json"
    with tempfile.TemporaryDirectory(prefix="lading-release-") as folder:
        python = f"{folder}/bin/python"
        _run(sys.executable, "-m", "venv", folder)
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "-q")
        _run(*pip, "--require-hashes", "-r", "requirements/server.txt")
        _run(*pip, "--no-deps", str(wheel))
        _run(python, "-m", "pip", "uninstall", "-q", "-y", "pip", "setuptools")
        options = ("--output-reproducible", "--pyproject", "pyproject.toml", "--of", "JSON")
        write = (str(TOOLS / "cyclonedx-py"), "environment", *options, "-o", str(target), python)
        _run(*write)
    document = json.loads(target.read_text())
    components: list[dict[str, Any]] = document["components"]
    components += _page_scripts()
    for one in components:
        if one["name"] in STATED and not one.get("licenses"):
            one["licenses"] = [{"license": {"id": STATED[one["name"]]}}]
    target.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    bad = [
        f"{one['name']} ({', '.join(_licences(one)) or 'none'})"
        for one in components
        if not any(map(ALLOWED.search, _licences(one)))
    ]
    if bad:
        raise Fault(f"licences that are unknown or not allowed: {'; '.join(bad)}")
    return f"{target.name}: {len(components)} packages, each with an allowed licence"


def _page_scripts() -> list[dict[str, Any]]:
    """The scripts of the page, which the wheel has, as components."""
    locked = json.loads((ROOT / "scripts/assets/package-lock.json").read_text())["packages"]
    return [
        {
            "type": "library",
            "bom-ref": f"npm:{name}",
            "name": name,
            "version": one["version"],
            "purl": f"pkg:npm/{name.replace('@', '%40')}@{one['version']}",
            "licenses": [{"license": {"id": one.get("license") or STATED[name]}}],
        }
        for path, one in sorted(locked.items())
        if path and not one.get("dev")
        for name in [path.removeprefix("node_modules/")]
    ]


def _licences(component: dict[str, Any]) -> list[str]:
    found = []
    for one in component.get("licenses", []):
        inner = one.get("license", {})
        found.append(one.get("expression") or inner.get("id") or inner.get("name") or "")
    return [one for one in found if one]


def check_debian() -> str:
    """The package builds, and lintian has no error, where it is installed."""
    package = Path(_run("scripts/deb.sh").splitlines()[-1])
    try:
        found = _out("lintian", "--allow-root", str(package))
    except FileNotFoundError:
        return f"{package.name}; lintian is not installed"
    if found:
        raise Fault(found.splitlines()[0])
    return f"{package.name}, lintian finds nothing"


def check_clean_root() -> str:
    """README's first command, and the Debian package, in clean roots."""
    _run(sys.executable, "scripts/clean_root.py", "demo", "deb")
    return "make demo and the Debian package come to a result"


def check_sums() -> str:
    """Writes SHA256SUMS of what is in dist."""
    files = sorted(one for one in DIST.glob("lading*") if one.is_file())
    text = "".join(f"{_digest(one)}  {one.name}\n" for one in files)
    (DIST / "SHA256SUMS").write_text(text)
    return f"{len(files)} files"


def _run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Fault(f"{Path(command[0]).name} ended with {done.returncode}: {''.join(said)}")
    return done.stdout


def _out(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _files(listed: str) -> list[Path]:
    return sorted((Path(one) for one in listed.splitlines()), key=lambda one: one.name)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
