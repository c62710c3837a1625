"""Ends of runs that the program waits for."""

from __future__ import annotations

import lading
from tests.cli.site import Play, Site


def test_a_run_that_was_there_is_noticed_while_others_wait(
    stage: Site, site: lading.Site, image: str
) -> None:
    waiting = site.run(["waiting"], image=image)
    # On the stage only what comes later is acted.
    assert waiting.uuid
    assert not waiting.done()
    with stage.acting(Play()):
        site.run(["there"], image=image).result(30)
    assert site.run(["there"], image=image).result(30).state == "succeeded"
    waiting.cancel()
