"""Programs of the machine that crun runs on the way to a container (hooks of its bundle)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import Any, Final

from lading.supervisor.engines import EngineHook

CUDA_HOOK: Final = "nvidia-container-runtime-hook"
OPEN: Final = "go"
"""The line at the gate with which the command starts."""


def find_cuda_hook(cuda: Sequence[int]) -> tuple[str, str]:
    """NVIDIA's program that adds the driver's libraries, for these GPUs, or "" and a note."""
    hook = shutil.which(CUDA_HOOK) if cuda else ""
    if hook is not None:
        return hook, ""
    return "", f"{CUDA_HOOK} is not installed: the image must bring the libraries of its driver"


def make_hooks(
    hooks: Iterable[EngineHook], *, gate: str, notice: str, cuda: str
) -> dict[str, list[dict[str, Any]]]:
    """The hooks by their stages; those of makers of devices come before the gate.

    `notice` is the path to which the container's state is written, `cuda` NVIDIA's program; "" for
    none.
    """
    stages: dict[str, list[dict[str, Any]]] = {}
    if notice:
        # The state may lack a final newline, so the rest of the last line is tested with -n.
        script = f'while read -r line || [ -n "$line" ]; do echo "$line"; done > {notice}'
        stages["createRuntime"] = [{"path": "/bin/sh", "args": ["sh", "-c", script]}]
    if cuda:
        stages["prestart"] = [{"path": cuda, "args": [cuda, "prestart"]}]
    for hook in hooks:
        stages.setdefault(hook.stage, []).append(_hook(hook))
    # crun writes the container's state to the hook's standard input and fails when nobody reads it.
    # grep reads it at once, a shell byte by byte, which took 0.7 ms. At the gate's end grep fails,
    # and so does the start.
    wait = {"path": "/bin/grep", "args": ["grep", "-qx", OPEN, "-", gate]}
    stages.setdefault("createContainer", []).append(wait)
    return stages


def _hook(hook: EngineHook) -> dict[str, Any]:
    return {
        "path": hook.path,
        "args": [*hook.arguments] or [hook.path],
        "env": [*hook.environment],
        **({"timeout": hook.timeout} if hook.timeout else {}),
    }
