"""Compiles `lading-start` (src/lading/supervisor/starter) when the package is built.

The compiler is $CC, `cc`, or that of the package `ziglang`; `LADING_STARTER_TARGET` (x86_64,
aarch64) compiles for another machine by `ziglang`, and names the wheel accordingly. Without a
compiler the package is built without the program, as one line of the build says: the native engine
then uses crun.

`LADING_WHEEL=client` builds the wheel for all systems: the client alone, in Python alone.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_py import build_py

SOURCES = Path("src/lading/supervisor/starter")
PROGRAM = "lading/supervisor/starter/lading-start"
FLAGS = (
    "-std=c11", "-Os", "-s", "-static", "-Wall", "-Wextra", "-Wshadow", "-Wconversion",
    "-Wno-sign-conversion", "-fstack-protector-strong", "-ffile-prefix-map=.=",
)  # fmt: skip
TARGET = os.environ.get("LADING_STARTER_TARGET", "")
IS_CLIENT = os.environ.get("LADING_WHEEL") == "client"
# Packages that the wheel for all systems lacks: the server, which needs Linux, and its fakes.
SERVER = (
    "api", "blobs", "dispatch", "fileserving", "s3", "store", "supervisor", "testing", "tes", "web",
    "webdav", "wiring",
)  # fmt: skip


def compilers() -> list[list[str]]:
    """Commands that compile C, in the order of preference."""
    # With a C library of its own: that of the machine is static only with its headers.
    target = f"{TARGET or platform.machine()}-linux-musl"
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", target]
    if TARGET:
        return [zig]
    named = [shlex.split(os.environ["CC"])] if os.environ.get("CC") else []
    return [*named, *([path] for path in [shutil.which("cc")] if path), zig]


def compile_starter(program: Path) -> bool:
    """Compile the program; whether a compiler could."""
    program.parent.mkdir(parents=True, exist_ok=True)
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    for compiler in compilers():
        command = [*compiler, *FLAGS, "-o", str(program), *sources]
        if subprocess.run(command, stderr=subprocess.PIPE, check=False).returncode == 0:
            return True
    return False


class BuildStarter(Command):
    """Builds the program beside the modules, or with an editable installation in the sources."""

    user_options = []
    editable_mode = False

    def initialize_options(self) -> None:
        """Nothing is set yet."""
        self.build_lib = ""

    def finalize_options(self) -> None:
        """Build where the modules go."""
        self.build_lib = self.get_finalized_command("build_py").build_lib

    def run(self) -> None:
        """Compile it."""
        if not compile_starter(self._program):
            if TARGET:
                raise SystemExit(f"lading-start cannot be compiled for {TARGET}")
            self.warn("not built, as there is no C compiler: the native engine uses crun")

    @property
    def _program(self) -> Path:
        return Path("src" if self.editable_mode else self.build_lib, PROGRAM)

    def get_outputs(self) -> list[str]:
        """The program, if it was built."""
        return [str(self._program)] if self._program.exists() else []

    def get_output_mapping(self) -> dict[str, str]:
        """No file of the sources is copied."""
        return {}

    def get_source_files(self) -> list[str]:
        """The files of the program that a source distribution holds."""
        return sorted(str(path) for path in SOURCES.glob("*.[ch]"))


class BuildModules(build_py):
    """The modules of Python: all of them, or those of the client."""

    def finalize_options(self) -> None:
        """Leave the server's packages out of the wheel for all systems."""
        if IS_CLIENT:
            # Else the manifest, which has all files, is searched for data of packages that are left
            # out, with a warning for each.
            self.distribution.include_package_data = False
        super().finalize_options()
        if IS_CLIENT:
            servers = {f"lading.{name}" for name in SERVER}
            self.packages = [
                name for name in self.packages if ".".join(name.split(".")[:2]) not in servers
            ]
            self.package_data["lading"] = [
                name for name in self.package_data["lading"] if name.split("/")[0] not in SERVER
            ]


class Wheel(bdist_wheel):
    """A wheel for machines of one kind, whatever their C library, as the program is static; or the
    client's for all systems.
    """

    def finalize_options(self) -> None:
        """The program makes it a wheel for one kind of machine."""
        super().finalize_options()
        self.root_is_pure = IS_CLIENT

    def get_tag(self) -> tuple[str, str, str]:
        """Any Python, one processor; or any."""
        if IS_CLIENT:
            return "py3", "none", "any"
        platforms = f"manylinux_2_17_{TARGET}.musllinux_1_1_{TARGET}"
        return "py3", "none", platforms if TARGET else super().get_tag()[2]


if not IS_CLIENT:
    build.sub_commands.append(("build_starter", None))
setup(cmdclass={"build_starter": BuildStarter, "build_py": BuildModules, "bdist_wheel": Wheel})
