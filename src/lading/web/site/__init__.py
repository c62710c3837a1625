"""Pages of what the site has for all requests: images and machines, tokens, webhooks, users and
health."""

from __future__ import annotations

from typing import Final

from lading.web.routes import PageRoute, route
from lading.web.site import admin, device_login, images, machines, quotas, tokens, webhooks

ROUTES: Final[tuple[PageRoute, ...]] = (
    route("GET", images.PLACE, images.show),
    route("POST", "/ui/images/{uuid}/name", images.add_name),
    route("POST", "/ui/images/{uuid}/remove", images.remove),
    route("GET", machines.PLACE, machines.show),
    route("GET", "/ui/machines/list", machines.refresh),
    route("POST", "/ui/machines/order", machines.order),
    route("GET", device_login.PLACE, device_login.show),
    route("POST", device_login.PLACE, device_login.allow),
    route("GET", tokens.PLACE, tokens.show),
    route("POST", tokens.PLACE, tokens.create),
    route("POST", "/ui/tokens/{uuid}/revoke", tokens.revoke),
    route("GET", webhooks.PLACE, webhooks.show),
    route("POST", webhooks.PLACE, webhooks.create),
    route("GET", "/ui/webhooks/{uuid}", webhooks.show_one),
    route("POST", "/ui/webhooks/{uuid}/test", webhooks.test),
    route("POST", "/ui/webhooks/{uuid}/pause", webhooks.pause),
    route("POST", "/ui/webhooks/{uuid}/resume", webhooks.resume),
    route("POST", "/ui/webhooks/{uuid}/rotate", webhooks.rotate),
    route("POST", "/ui/webhooks/{uuid}/redeliver", webhooks.redeliver),
    route("POST", "/ui/webhooks/{uuid}/delete", webhooks.delete),
    route("GET", quotas.PLACE, quotas.show),
    route("POST", quotas.PLACE, quotas.set_quota),
    route("POST", "/ui/quotas/{uuid}/remove", quotas.remove),
    route("GET", admin.PLACE, admin.show),
    route("GET", admin.USERS, admin.list_users),
    route("POST", admin.USERS, admin.create_user),
    route("GET", "/ui/admin/users/{uuid}", admin.show_user),
    route("POST", "/ui/admin/users/{uuid}", admin.change_user),
    route("POST", "/ui/admin/users/{uuid}/join", admin.join_role),
    route("POST", "/ui/admin/users/{uuid}/leave", admin.leave_role),
)
