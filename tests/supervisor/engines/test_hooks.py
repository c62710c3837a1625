"""Hooks of a bundle; crun runs them in tests/system/test_gpus.py."""

from __future__ import annotations

from lading.supervisor.engines import EngineHook
from lading.supervisor.engines.hooks import find_cuda_hook, make_hooks


def test_hooks_of_makers_run_before_the_gate() -> None:
    hooks = (
        EngineHook(stage="createContainer", path="/bin/warm", arguments=("warm", "x"), timeout=3),
        EngineHook(stage="createRuntime", path="/bin/cool", environment=("A=1",)),
    )
    stages = make_hooks(hooks, gate="/gate", notice="/notice", cuda="/bin/cuda")
    first, gate = stages["createContainer"]
    assert first == {"path": "/bin/warm", "args": ["warm", "x"], "env": [], "timeout": 3}
    assert gate["args"][-1] == "/gate"
    notice, cool = stages["createRuntime"]
    assert notice["args"][-1].endswith("> /notice")
    assert cool == {"path": "/bin/cool", "args": ["/bin/cool"], "env": ["A=1"]}
    assert stages["prestart"] == [{"path": "/bin/cuda", "args": ["/bin/cuda", "prestart"]}]


def test_a_plain_container_has_the_gate_alone() -> None:
    stages = make_hooks((), gate="/gate", notice="", cuda="")
    assert [*stages] == ["createContainer"]
    assert find_cuda_hook(()) == ("", "")
