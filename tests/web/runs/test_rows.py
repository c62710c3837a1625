"""What a row of the list of runs shows."""

from __future__ import annotations

from lading.web.runs import rows
from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run

COUNTS = dict.fromkeys(
    ("waiting", "running", "done", "failed", "cancelled", "draft", "reused", "total"), 0
)


def test_one_failure_among_thousands_is_seen() -> None:
    shares = rows.bar_shares(COUNTS | {"done": 9999, "failed": 1})
    assert [share.look for share in shares] == ["good", "bad"]
    assert shares[1].width > 2
    assert shares[1].x + shares[1].width <= rows.BAR_WIDTH + 0.2
    assert rows.bar_shares(COUNTS) == ()


def test_a_bar_says_its_numbers_in_words() -> None:
    drawn = rows.draw_bar(rows.bar_shares(COUNTS | {"done": 1}), '1 step: "<b>" done')
    assert 'aria-label="1 step: &#34;&lt;b&gt;&#34; done"' in drawn
    assert '<rect class="good" x="0.0" width="200.0" height="10"></rect></svg>' in drawn


def test_the_steps_in_words() -> None:
    assert rows.summary_of(COUNTS) == "no steps yet"
    assert rows.summary_of(COUNTS | {"waiting": 1, "total": 1}) == "1 step: 1 waiting"
    shown = rows.summary_of(COUNTS | {"done": 3, "reused": 2, "failed": 1, "total": 4})
    assert shown == "4 steps: 3 done (2 reused), 1 failed"


def test_parameters_in_one_line() -> None:
    assert rows.shown_params({"k": 31, "reads": "a.fq", "on": True}) == "k=31, reads=a.fq, on=true"


def test_a_run_takes_until_its_end() -> None:
    run = {
        "state": "done",
        "counts": COUNTS | {"total": 1},
        "began_at": "2026-01-01T00:00:00.000000000Z",
        "ended_at": "2026-01-01T00:01:00.000000000Z",
        "finished_at": None,
    }
    assert rows.seconds_of(run, 1e12) == 60
    assert rows.seconds_of({**run, "counts": COUNTS}, 1e12) is None
    assert (rows.seconds_of({**run, "state": "running"}, 1.9e9) or 0) > 60


async def test_a_token_of_limited_scope_sees_uuids(here: PageSite) -> None:
    run = await begin_run(here, "mine")
    scopes = ["GET /arvados/v1/users/current", "GET /arvados/v1/container_requests",
              "GET /arvados/v1/containers", "GET /arvados/v1/groups/runs"]  # fmt: skip
    token = await here.world.ok("POST", "api_client_authorizations", {"scopes": scopes})
    browser: Browser = await here.logged_in(f"v2/{token['uuid']}/{token['api_token']}")
    assert f"/ui/runs/{run['uuid']}" in await browser.text("/ui/")
