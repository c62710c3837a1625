from __future__ import annotations

from pathlib import Path

from lading.supervisor.engines import EngineSettings, find_engines
from lading.supervisor.engines.native import NativeEngine


def test_it_is_the_native_engine_without_the_starter(tmp_path: Path) -> None:
    settings = EngineSettings(
        container_uuid="zzzzz-dz642-crununittest000",
        run_directory=str(tmp_path),
        cache_directory=str(tmp_path),
    )
    engine = find_engines().make("native-crun", settings)
    assert isinstance(engine, NativeEngine)
    assert not engine.has_starter
    assert NativeEngine.has_starter
