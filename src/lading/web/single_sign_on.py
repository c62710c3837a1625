"""Login with OpenID Connect: sends a browser to the configured provider, and takes the answer.

The API speaks to the provider; the page binds a login to a browser. The state of a login that has
begun is sealed with the secret of a cookie, and used once. An answer of the provider is refused if
it comes from another browser, late or for a second time.
"""

from __future__ import annotations

import hmac
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from lading.core.errors import Forbidden, LadingError, NotFound, Unauthenticated
from lading.web import browser_rules, login
from lading.web.sessions import FLOW_LIFE, LoginFlow
from lading.web.visit import Visit

BEGIN: Final = "/ui/openid_connect"
DONE: Final = "/ui/openid_connect/done"
_STALE: Final = "This login is too old, or was begun in another browser; log in again."
_DENIED: Final = "The provider did not log you in"


async def begin(visit: Visit) -> Response:
    """Send the reader to the provider. Raises NotFound where there is none."""
    target = browser_rules.safe_place(visit.query("next"))
    if visit.session is not None:
        return visit.redirect(target)
    try:
        begun: dict[str, Any] = await visit.client_of("").request("POST", "openid_connect/begin")
    except NotFound:
        raise
    except LadingError as error:
        return await login.show_form(visit, target, fault=error.message, status=503)
    flow = LoginFlow(
        state=begun["state"],
        nonce=begun["nonce"],
        code_verifier=begun["code_verifier"],
        target=target,
        until=visit.services.clock().timestamp() + FLOW_LIFE,
    )
    secret = await visit.services.sessions.begin_flow(flow)
    headers = {"Cache-Control": "no-store"}
    response = RedirectResponse(begun["authorization_url"], status_code=303, headers=headers)
    response.headers["Set-Cookie"] = browser_rules.cookie(secret, seconds=FLOW_LIFE)
    return response


async def finish(visit: Visit) -> Response:
    """Take the provider's answer, and begin a session."""
    secret = browser_rules.read_cookie(visit.incoming.headers.get("cookie", ""))
    flow = await visit.services.sessions.take_flow(secret) if secret else None
    state = visit.query("state").encode()
    if flow is None or not hmac.compare_digest(flow.state.encode(), state):
        # Text of an answer that may be of somebody else is not shown.
        fault = f"{_DENIED}; log in again." if visit.query("error") else _STALE
        return await login.show_form(visit, "", fault=fault, status=403)
    if visit.query("error") or not visit.query("code"):
        reason = visit.query("error_description") or visit.query("error") or "no reason was given"
        return await login.show_form(
            visit, flow.target, fault=f"{_DENIED}: {reason[:200]}", status=403
        )
    answer = {
        "code": visit.query("code"),
        "iss": visit.query("iss"),
        "nonce": flow.nonce,
        "code_verifier": flow.code_verifier,
    }
    try:
        created = await visit.client_of("").request(
            # A code is good once: a second attempt would fail for that alone.
            "POST",
            "openid_connect/finish",
            body=answer,
            repeat=False,
        )
        token = f"v2/{created['uuid']}/{created['api_token']}"
        user = await visit.client_of(token).request("GET", "users/current")
    except (Unauthenticated, Forbidden) as error:
        fault = f"{_DENIED}: {error.message}"
        return await login.show_form(visit, flow.target, fault=fault, status=error.status)
    except LadingError as error:
        return await login.show_form(visit, flow.target, fault=error.message, status=503)
    return await login.begin_session(
        visit,
        token=token,
        token_uuid=str(created["uuid"]),
        user=user,
        target=flow.target,
        logout_url=str(created.get("logout_url") or ""),
    )
