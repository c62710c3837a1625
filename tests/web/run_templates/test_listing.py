"""The list of templates."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite
from tests.web.run_templates.making import save


async def test_the_list_has_templates_and_workflows(here: PageSite, browser: Browser) -> None:
    assert "No template is here" in await browser.text("/ui/templates")
    uuid = await save(here)
    await here.world.ok("POST", "workflows", {"name": "old", "definition": "name: x"})
    text = await browser.text("/ui/templates")
    assert f'href="/ui/templates/{uuid}"' in text
    assert "k=25" in text
    assert "is not JSON" in text
    assert "No template matches" in await browser.text("/ui/templates?q=zz")
    assert 'href="/ui/templates"' in await browser.text("/ui/")
    assert (await browser.get("/ui/templates?offset=x")).status == 422


async def test_the_list_has_pages(here: PageSite, browser: Browser) -> None:
    for number in range(21):
        await here.world.ok("POST", "workflows", {"name": f"w{number}", "definition": "name: x"})
    assert "/ui/templates?offset=20" in await browser.text("/ui/templates")
    older = await browser.text("/ui/templates?offset=20")
    assert ("The newest" in older, "Older" in older) == (True, False)
