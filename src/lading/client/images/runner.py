"""Builds the image `arvados/jobs:VERSION`, in which `arvados-cwl-runner` runs workflows.

No registry is needed. The image is used by `arvados-cwl-runner --submit`, and is also the image of
each tool of a workflow that names none: a Debian or Ubuntu root with the programs that such tools
expect, made by mmdebstrap from the package sources of this machine, and a Python environment, first
on PATH, with `arvados-cwl-runner`. The packages of the default version are pinned with their hashes
in `runner.txt`. The image is kept in the user's cache directory, named by the hash of its inputs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from lading.client.caches.disk_cache import DiskCache, Durability, EntryClaim
from lading.client.caches.entry_files import CacheLayout
from lading.client.images.archive import (
    PATH,
    ImageParts,
    NormalImage,
    make_config,
    plain_layer,
    write_archive,
)
from lading.client.images.archive_members import Slice
from lading.client.images.steps import UNWATCHED, ImageSteps
from lading.core.errors import Invalid, Unavailable

DEFAULT_VERSION: Final = "3.2.1"
PACKAGES: Final = (
    "bash", "bsdextrautils", "ca-certificates", "curl", "debianutils", "git", "nodejs", "procps",
    "python3", "python3-venv",
)  # fmt: skip
"""Besides the essential ones: `rev`, `ps` and `which` are in bsdextrautils, procps and
debianutils.
"""
# A version of PEP 440 without an epoch.
_VERSION: Final = re.compile(r"\d+\.\d+[0-9A-Za-z.]*")
_PROGRAM: Final = "arvados-cwl-runner"
_ENVIRONMENT: Final = (f"PATH=/opt/arvados/bin:{PATH}", "LANG=C.UTF-8")
_EPOCH: Final = "1704067200"
"""2024-01-01: the time of all newer files of the image, so that the same packages give the same
image.
"""
_LEFT_OUT: Final = ("doc", "info", "lintian", "locale", "man")
_ARCHIVE, _DESCRIPTION = "image.tar", "image.json"
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
# Options of pip about access to the index; all others are ignored.
_PIP: Final = (
    "index-url",
    "extra-index-url",
    "trusted-host",
    "cert",
    "proxy",
    "timeout",
    "default-timeout",
)
# Components of the package sources; universe is Ubuntu's.
_COMPONENTS: Final = ("main", "universe")
_KEYRING: Final = "usr/share/keyrings/{}-archive-keyring.gpg"
_CERTIFICATES: Final = "/tmp/certificates.pem"  # noqa: S108 - inside the root that is being made
# Images of one version that are kept in the cache.
_KEPT: Final = 2
# Seconds for one program, downloads of packages included.
_TIMEOUT: Final = 1800.0
# Lines of mmdebstrap without interest for the user.
_DETAILS: Final = re.compile(
    r"I: (running|using|removing|skipping|reading|chroot|automatically|cleaning|done|success)\b"
)
# Lines of standard error kept for the message of a failure.
_LAST_WORDS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildHost:
    """The machine that builds the image: root of its files, environment, and architecture as images
    name it.
    """

    root: Path = Path("/")
    environ: Mapping[str, str]
    architecture: str


class RunCommand(Protocol):
    """Runs a program to its end; returns its standard output. Raises Unavailable when it fails."""

    def __call__(
        self, command: Sequence[str], *, stdin: str = "", environ: Mapping[str, str]
    ) -> str:
        """`stdin` is its standard input, `environ` its environment."""
        ...


def image_name(version: str) -> str:
    """The image name that `arvados-cwl-runner` of this version requests."""
    return f"arvados/jobs:{version}"


def build_runner(
    folder: Path,
    *,
    version: str,
    cache: Path,
    host: BuildHost,
    run: RunCommand,
    steps: ImageSteps = UNWATCHED,
) -> NormalImage:
    """The image of this version, built below the empty directory `folder` unless it is cached.

    Raises Invalid for a malformed version and on a machine that cannot build the image, Unavailable
    when packages cannot be fetched.
    """
    if not _VERSION.fullmatch(version):
        raise Invalid(f"--version {version}: not a version; write for example {DEFAULT_VERSION}")
    if shutil.which("mmdebstrap", path=host.environ.get("PATH")) is None:
        raise Invalid(
            "mmdebstrap is not on PATH, and makes the root file system of the image; "
            "install it: apt install mmdebstrap"
        )
    pins = resources.files("lading.client.images").joinpath("runner.txt").read_text()
    requirements = pins if version == DEFAULT_VERSION else f"{_PROGRAM}=={version}\n"
    script = resources.files("lading.client.images").joinpath("runner.sh").read_text()
    sources = package_sources(host, run)
    # All inputs: a change of one of them builds another image.
    recipe = (
        requirements,
        script,
        sources,
        host.architecture,
        _EPOCH,
        *PACKAGES,
        *_ENVIRONMENT,
        *_LEFT_OUT,
    )
    key = f"runner-{version}-{sha256(msgspec.json.encode(recipe)).hexdigest()[:16]}"
    images = _images(cache, version)
    claim = images.wait_for_claim(key)
    if claim is not None:
        with claim:
            root = _make_root(folder, requirements, script, sources, host, run)
            _keep(_as_image(root, folder, version, host.architecture, steps), claim)
            images.evict()
            _forget_environments(cache)
    images.touch(key)
    directory = images.path(key)
    described = msgspec.json.decode((directory / _DESCRIPTION).read_bytes(), type=dict[str, Any])
    return NormalImage(path=directory / _ARCHIVE, **{**described, "cuts": tuple(described["cuts"])})


def package_sources(host: BuildHost, run: RunCommand) -> str:
    """The sources of this machine's own distribution, as lines of apt's sources.list. Raises
    Invalid if there are none.
    """
    if shutil.which("apt-get", path=host.environ.get("PATH")) is None:
        raise Invalid(
            "apt-get is not on PATH; the image is made on Debian or Ubuntu, "
            "and can be copied from there"
        )
    form = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
    environ = {"PATH": host.environ.get("PATH", PATH), "LC_ALL": "C"}
    # From the configuration only: nothing is fetched.
    command = [
        "apt-get",
        "indextargets",
        "--no-release-info",
        "--format",
        form,
        "Created-By: Packages",
    ]
    targets = run(command, environ=environ)
    described = (
        (host.root / "etc/os-release").read_text()
        if (host.root / "etc/os-release").exists()
        else ""
    )
    names = dict(re.findall(r'^(ID|VERSION_CODENAME)="?([a-z]+)', described, re.MULTILINE))
    codename = names.get("VERSION_CODENAME", "")
    keyring = host.root / _KEYRING.format(names.get("ID", ""))
    signed = f" [signed-by={keyring}]" if keyring.exists() else ""
    lines = []
    for line in dict.fromkeys(targets.splitlines()):
        uri, release, component = line.split("|")
        if component in _COMPONENTS and release in (
            codename,
            f"{codename}-updates",
            f"{codename}-security",
        ):
            lines.append(f"deb{signed} {uri} {release} {component}\n")
    if not lines:
        raise Invalid(
            "apt has no source of packages of this machine's distribution, of which the image is "
            "made; see /etc/apt/sources.list and sources.list.d"
        )
    return "".join(lines)


def _make_root(
    folder: Path, requirements: str, script: str, sources: str, host: BuildHost, run: RunCommand
) -> Path:
    """The root file system, as a tar below `folder`."""
    # Without root it is made in a user namespace, in which these files must be readable.
    folder.chmod(0o755)
    pins, root = folder / "pins.txt", folder / "root.tar"
    pins.write_text(requirements)
    pip = _pip_settings(host, run)
    certificates = pip.get("PIP_CERT", "")
    upload = [f"--customize-hook=upload {pins} /tmp/pins.txt"]
    if certificates:
        upload.append(f"--customize-hook=upload {certificates} {_CERTIFICATES}")
        pip["PIP_CERT"] = _CERTIFICATES
    proxies = {name: value for name, value in host.environ.items() if name.lower() in _PROXIES}
    environ = {
        "PATH": f"{host.environ.get('PATH', PATH)}:/usr/sbin:/sbin",
        "SOURCE_DATE_EPOCH": _EPOCH,
        "LC_ALL": "C",
    }
    if "--hash=" in requirements:
        environ["PIP_REQUIRE_HASHES"] = "1"
    run(
        [
            "mmdebstrap",
            "--mode=unshare",
            "--variant=essential",
            f"--include={','.join(PACKAGES)}",
            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT),
            "--skip=output/dev",
            *upload,
            f"--customize-hook={script}",
            "--format=tar",
            "",
            str(root),
            "-",
        ],
        stdin=sources,
        environ={**environ, **proxies, **pip},
    )
    return root


def _pip_settings(host: BuildHost, run: RunCommand) -> dict[str, str]:
    """The settings of this machine's pip for its package index, as environment variables."""
    try:
        listed = run([sys.executable, "-m", "pip", "config", "list"], environ=host.environ)
    except Unavailable:
        # This Python has no pip, so there are no settings to copy.
        return {}
    found = (
        re.fullmatch(r"(?:global|install|:env:)\.([a-z-]+)='(.*)'", line)
        for line in listed.splitlines()
    )
    given = {match[1]: match[2].replace("\\n", " ").strip() for match in found if match is not None}
    return {
        f"PIP_{name.upper().replace('-', '_')}": value
        for name, value in given.items()
        if name in _PIP
    }


def _as_image(
    root: Path, folder: Path, version: str, architecture: str, steps: ImageSteps
) -> NormalImage:
    whole = Slice(root, 0, root.stat().st_size)
    layer = plain_layer(whole, folder / "layer.tar", "the root of the runner", steps=steps)
    config = make_config(
        [layer],
        architecture=architecture,
        created_by=f"lading image runner --version {version}",
        environment=_ENVIRONMENT,
        command=("/bin/bash",),
    )
    parts = ImageParts(config=config, layers=(layer,))
    return write_archive(parts, folder / _ARCHIVE, steps=steps)


def _images(cache: Path, version: str) -> DiskCache:
    """The images of one version, of which the latest ones stay."""
    return DiskCache(
        cache,
        _KEPT,
        layout=CacheLayout(pattern=f"runner-{version}-*", lock="{}.lock"),
        durability=Durability.SYNCED,
        weigh=lambda _: 1,
        is_whole=lambda key: (cache / key / _DESCRIPTION).exists(),
    )


def _keep(image: NormalImage, claim: EntryClaim) -> None:
    claim.start_over()
    claim.part.mkdir()
    shutil.copyfile(image.path, claim.part / _ARCHIVE)
    described = {
        name: getattr(image, name) for name in ("digest", "size", "created", "notes", "cuts")
    }
    (claim.part / _DESCRIPTION).write_bytes(msgspec.json.encode(described))
    claim.publish()


def _forget_environments(cache: Path) -> None:
    """Remove the environments that an earlier version made images of."""
    for old in cache.glob(f"{_PROGRAM}-*/"):
        shutil.rmtree(old, ignore_errors=True)


def make_run(tell: Callable[[str], None], steps: ImageSteps = UNWATCHED) -> RunCommand:
    """A function that runs programs, calls `tell` with their progress messages, and ends them when
    the work has to end.
    """

    def run(command: Sequence[str], *, stdin: str = "", environ: Mapping[str, str]) -> str:
        return run_program(command, stdin=stdin, environ=environ, tell=tell, steps=steps)

    return run


def run_program(
    command: Sequence[str],
    *,
    stdin: str,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
    steps: ImageSteps = UNWATCHED,
) -> str:
    """Implements `RunCommand`: passes lines of standard error that begin with "I: " to `tell`. The
    program is terminated together with this process.
    """
    last: deque[str] = deque(maxlen=_LAST_WORDS)
    # Files instead of pipes: with two pipes, a full one could block the program while the other is
    # read.
    with tempfile.TemporaryFile("w+") as answer, tempfile.TemporaryFile("w+") as question:
        question.write(stdin)
        question.seek(0)
        with subprocess.Popen(
            list(command),
            stdin=question,
            stdout=answer,
            stderr=subprocess.PIPE,
            env=dict(environ),
            text=True,
        ) as process:
            assert process.stderr is not None
            with steps.ending(process, limit=_TIMEOUT):
                for line in process.stderr:
                    last.append(line.strip())
                    if line.startswith("I: ") and not _DETAILS.match(line):
                        tell(line.removeprefix("I: ").strip())
                code = process.wait()
        if code != 0:
            raise Unavailable(
                f"{command[0]} failed, so the image was not made: {_words(last, code)}; try again"
            )
        answer.seek(0)
        return answer.read()


def _words(last: Sequence[str], code: int) -> str:
    """Reason of a failure from the program's output: its first error, or else its last line."""
    errors = (line for line in last if re.match(r"(E|ERROR|error): ?", line))
    return next(errors, "") or next((line for line in reversed(last) if line), f"exit code {code}")
