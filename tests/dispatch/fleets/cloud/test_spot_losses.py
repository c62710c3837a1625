from __future__ import annotations

from pathlib import Path

from lading.core.resources import GIB, Resources
from lading.core.scheduling.cloud_limits import Limits
from lading.core.scheduling.cloud_spot import AVOIDED_SHORTEST
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.spot_losses import SpotLosses

KIND = InstanceType(
    name="m5.preemptible", provider_type="m5", resources=Resources(4, 8 * GIB), preemptible=True
)
ORDINARY = InstanceType(name="m5", provider_type="m5", resources=Resources(4, 8 * GIB))


class Times:
    """The clock of the process, and wall time."""

    def __init__(self, clock: float, wall: float) -> None:
        self.now, self.wall = clock, wall

    def losses(self, path: Path | None = None, *zones: str) -> SpotLosses:
        return SpotLosses(path, clock=lambda: self.now, wall=lambda: self.wall, zones=lambda: zones)


def test_losses_outlive_the_dispatcher(tmp_path: Path) -> None:
    path = tmp_path / "home" / "spot-losses.json"
    Times(50.0, 1e9).losses(path).note(KIND, "a")
    later = Times(3.0, 1e9 + 100)
    known = later.losses(path, "a")
    assert known.zones_to_avoid(KIND) == {"a"}
    assert known.zones_to_avoid(ORDINARY) == frozenset()
    limits = known.limit(Limits())
    assert limits.avoids(KIND, now=3.0) == "m5 was taken away in a"
    assert limits.avoided["m5"].until == 3.0 + AVOIDED_SHORTEST - 100
    assert later.losses(path, "a", "b").limit(Limits()).avoided == {}


def test_wall_time_that_is_set_back_makes_no_pause_longer(tmp_path: Path) -> None:
    path = tmp_path / "spot-losses.json"
    Times(0.0, 1e9).losses(path).note(KIND, "")
    limits = Times(7.0, 1e8).losses(path).limit(Limits())
    assert limits.avoided["m5"].until == 7.0 + AVOIDED_SHORTEST


def test_a_damaged_file_counts_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "spot-losses.json"
    for text in ("{", '[{"type": 1}]'):
        path.write_text(text)
        assert Times(0.0, 1.0).losses(path).limit(Limits()) == Limits()


def test_a_place_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    losses = Times(0.0, 1e9).losses(tmp_path / "file" / "spot-losses.json")
    losses.note(KIND, "")
    assert "m5" in losses.limit(Limits()).avoided
