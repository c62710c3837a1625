"""Git repositories for tests, made with the git of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class Repository:
    """A repository in a directory; every commit is a second later than the one before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clock = 1_700_000_000
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main", ".")

    @property
    def url(self) -> str:
        """Where it is fetched from."""
        return f"file://{self.path}"

    def git(self, *command: str) -> str:
        """What git says."""
        self._clock += 1
        when = f"{self._clock} +0000"
        who = {
            f"GIT_{role}_{what}": "x@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        environment = {
            **who, "PATH": os.environ["PATH"], "HOME": str(self.path), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when,
        }  # fmt: skip
        done = subprocess.run(
            ["git", *command],
            cwd=self.path,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        """Commit files, `a__b` for a/b; the commit's hash."""
        for name, text in files.items():
            path = self.path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message=x")
        return self.git("rev-parse", "HEAD")

    def hash(self, name: str) -> str:
        """The hash of an object such as HEAD:a."""
        return self.git("rev-parse", name)
