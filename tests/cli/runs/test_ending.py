"""`lading runs cancel` and `rm`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.runs.runs_site import read
from tests.cli.site import Site


def test_cancel_and_rm(site: Site, image: str, here: Path) -> None:
    for number in range(2):
        site.lading(
            "run", "--detach", "--image", image, "--run", "long", "--", "sleep", str(number)
        )
    assert "waiting: 0 of 2 done, 2 waiting" in site.lading("runs", "show", "long").stdout
    site.lading("runs", "rm", "long", "--yes", code=1)
    site.lading("runs", "cancel", "long", code=1)
    assert read(site, "cancel", "long", "--yes")["state"] == "cancelled"
    site.lading("runs", "cancel", "long", "--yes", code=1)
    previewed = site.lading("runs", "rm", "long", "--preview").stdout
    assert previewed.startswith("long: 2 requests, ")
    assert read(site, "rm", "long", "--preview")[0]["requests"] == 2
    site.lading("runs", "rm", "long", "--yes")
    fault = site.lading("runs", "show", "long", code=1).stderr
    assert "no run is called so" in fault
