"""The queries of `lading.store` that take no reader, each with the reason why it needs none.

A query takes a reader if one of its parameters is in READER: a user whose rights count, or the
conditions of what somebody can read. Of every other one either nothing reaches an answer, a
message, a count, an estimate, an event, a metric or a log that others read; or its callers look at
the rights, and the reason names how.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

READER: Final = frozenset({"reader", "readable", "user_uuid"})
"""Names of parameters that say for whom a query is asked."""

_WORK = "work of the server: the rows decide what it does next, and are in no answer"
_SCHEDULING = (
    "order of the queue: the rows become priorities, which say nothing of other containers"
)
_UPKEEP = "upkeep: deletes or counts what is out of date; the numbers are in the server's own log"
_CHANGE = "a write: tells whether, or with which number, the caller's own change was made"
_LIST = "the conditions come with the call: lists add those of `access.readable`"
_BY_NAME = (
    "one look-up for all parts of the server, without rights by intent: for an answer,"
    " `authorization.find_readable`, `can_read` or `can_refer` is asked, or the row belongs to a"
    " record that was found so"
)
_CHARGES = "charges of containers to quotas: decide about room in the write transaction"
_OWN_TOOL = "a tool has a user: the rows are of runs of that user alone"
_NUMBERED = "of those that the caller cannot read only the number counts (`expectations._View`)"
_WEBHOOK = "of a webhook that the caller manages (`find_readable`), or for the worker that sends"
_TASKS = "of requests that the caller can read, or for the worker that moves files"
_DISPATCHER = "for the token of the dispatcher that wrote it"
_OPERATOR = "for the operator of the site, at the command line of the server"

WITHOUT_READER: Final = MappingProxyType(
    {
        "cancellations.get": "the handler answers its user and admins alone",
        "cancellations.get_now": _WORK,
        "cancellations.unfinished": _WORK,
        "cancellations.features_in_use": "decides which features take part in a transaction",
        "cancellations.taken": _WORK,
        "cancellations.page": "the conditions have those of what the user may cancel",
        "cancellations.containers_of": "of requests of such a page; decides what is cancelled",
        "cancellations.with_dependents": "of requests of such a page; decides how one is cancelled",
        "cancellations.with_charges": "of requests of such a page; decides how one is cancelled",
        "live.orphaned": _WORK,
        "cascades.get": _WORK,
        "cascades.unfinished": _WORK,
        "cascades.page_of_projects": _SCHEDULING,
        "cascades.page_of_children": _SCHEDULING,
        "cascades.children": "of a container that ended: they are cancelled",
        "cascades.asking": _SCHEDULING,
        "event_audiences.readers_of": "finds who may read, for many users at once",
        "steps.totals": "the run was found as readable, and a scope of a runner has conditions",
        "steps.contents_read": "of the containers of steps that were read so",
        "steps.repeated": "the run was found as readable, and a scope of a runner has conditions",
        "steps.find": "the run was found as readable, and a scope of a runner has conditions",
        "records.owned": "for the deletion of a project whose time in the trash is over",
        "live.states": "for dispatchers, which look for a container to lock",
        "live.live_counts": "numbers by state alone, for the metrics",
        "live.warned": "for the report of a dispatcher: which of its warnings it takes back",
        "live.wanted_below": _SCHEDULING,
        "live.wanted_by": _SCHEDULING,
        "intervals.intervals_of": "`get_accounting` leaves out those of unreadable requests",
        "attempts.requests_with_log": "`manifests.find_content` asks for a readable one of them",
        "contents.names_taken": "names of an owner for whom the caller may write",
        "contents.for_keeping": "content that a request keeps, or that was found readable before",
        "contents.references_after": _OPERATOR,
        "contents.references_changed": _OPERATOR,
        "contents.naming_block": _OPERATOR,
        "copying.copy_records": _OPERATOR,
        "fair_shares.clock": _SCHEDULING,
        "fair_shares.account": _SCHEDULING,
        "fair_shares.tickets": _SCHEDULING,
        "fair_shares.exact": _SCHEDULING,
        "fair_shares.parked": _SCHEDULING,
        "fair_shares.passed_over": _SCHEDULING,
        "fair_shares.overdue": _SCHEDULING,
        "fair_shares.waiting": _SCHEDULING,
        "fair_shares.uses": "`list_shares` and `position` leave out shares that cannot be read",
        "fair_shares.ahead": "a number: how many containers wait before one that the caller reads",
        "fair_shares.counts": "`list_shares` leaves out shares that the caller cannot read",
        "fair_shares.policies_above": _SCHEDULING,
        "learned.find": _OWN_TOOL,
        "learned.forget": _UPKEEP,
        "learned.input_size": "of the inputs of a readable container; picks the runs of a tool",
        "leases.LeaseTable.take": _WORK,
        "leases.LeaseTable.renew": _WORK,
        "permission_queries.members_of": "`is_invited` of users that the caller can read",
        "permission_queries.owners_above": "refuses circles of owners; picks rules and webhooks",
        "permission_queries.computed": "for admins alone (`list_permissions`)",
        "permission_queries.links_of": "links that go with a record that is deleted or merged",
        "permissions.users_outside": _WORK,
        "permissions.below": _WORK,
        "permissions.group_flags": "of the group or the owner of a record that the caller can read",
        "permissions.flags_by_group": _WORK,
        "permissions.any_frozen": _WORK,
        "quotas.kinds": _CHARGES,
        "quotas.concerning": "`quotas.check` names a quota to those alone who can read it",
        "quotas.find": "`verdicts` names a quota to those who can read it; dispatchers get titles",
        "quotas.storing": "`quotas.check` names a quota to those alone who can read it",
        "quotas.below": "owners whose bytes count for a quota that the caller can read or fill",
        "quotas.stored_bytes": "the use of a readable quota, or checked by `quotas.check`",
        "quotas.charges_of": _CHARGES,
        "quotas.discharge": _CHARGES,
        "quotas.used": "the use of a readable quota (`list_uses`, `verdicts`), or for its charges",
        "quotas.yielding": _CHARGES,
        "quotas.admitted": _CHARGES,
        "quotas.running": _CHARGES,
        "quota_waits.first_waiting": _CHARGES,
        "quota_waits.waits_of": (
            "of requests that the caller can read; `verdicts` hides other quotas"
        ),
        "quota_waits.waits_for": _CHARGES,
        "quota_waits.unwait_container": _CHARGES,
        "quota_waits.due": _WORK,
        "quota_waits.next_due": _WORK,
        "quota_waits.waiting_at": _CHARGES,
        "quotas.queued": "the use of a readable quota, or checked by `quotas.check`",
        "quotas.live": _CHARGES,
        "quotas.spent": "what a readable quota has spent; notes about it go to its readers",
        "quotas.spent_before": "what a new quota starts with",
        "records.get": _BY_NAME,
        "records.selected": "for the other modules of the store alone",
        "records.selected_with": "for the other modules of the store alone",
        "records.find": _LIST,
        "records.matching": _BY_NAME,
        "records.among": _BY_NAME,
        "records.exists": _LIST,
        "records.search": _LIST,
        "records.search_texts": _LIST,
        "records.count": _LIST,
        "records.insert": _CHANGE,
        "records.add": _CHANGE,
        "records.add_all": _CHANGE,
        "records.update": _CHANGE,
        "records.delete": _CHANGE,
        "tokens.token_holder": "who calls: asked with the secret of the token",
        "run_times.find": _OWN_TOOL,
        "run_times.find_all": _OWN_TOOL,
        "run_times.forget": _UPKEEP,
        "run_times.running": _NUMBERED,
        "run_times.waiting_before": _NUMBERED,
        "run_times.are_expected": _WORK,
        "run_times.take_starts": _WORK,
        "run_times.errors": "how right the server's expectations are: numbers of no container",
        "schema.check_version": _OPERATOR,
        "transfers.StoredTransfers.read": _TASKS,
        "transfers.StoredTransfers.in_phase": _TASKS,
        "transfers.StoredTransfers.ended": _TASKS,
        "transfers.StoredTransfers.waiting": _TASKS,
        "transfers.StoredTransfers.take": _TASKS,
        "transfers.StoredTransfers.renew": _TASKS,
        "transfers.StoredTransfers.move": _TASKS,
        "transfers.StoredTransfers.sweep": _TASKS,
        "transfers.StoredTransfers.deliveries": _TASKS,
        "transfers.StoredTransfers.claim_key": "the key has the caller in its digest",
        "upgrade_check.check_database": _OPERATOR,
        "upkeep.mark_used": _UPKEEP,
        "upkeep.prune_logs": _UPKEEP,
        "upkeep.sweep": _UPKEEP,
        "upkeep.due_groups": _UPKEEP,
        "upkeep.expired_groups": _UPKEEP,
        "waiting.has_work": _WORK,
        "waiting.watching": _SCHEDULING,
        "waiting.dependents": _SCHEDULING,
        "waiting.waits_on": _SCHEDULING,
        "waiting.outdated": _SCHEDULING,
        "waiting.next_moment": _SCHEDULING,
        "waiting.resolving": _WORK,
        "waiting.ahead": "a number: how many containers wait before one that the caller reads",
        "statuses.count_statuses": "numbers alone, for the metrics and the report on health",
        "statuses.statuses_of": "of the container of a request that the caller can read",
        "statuses.last_report": "the time of a dispatcher's last report, of no container",
        "statuses.put_machines": _DISPATCHER,
        "statuses.machines": "`list_machines` leaves out containers that the caller cannot read",
        "statuses.take_orders": _DISPATCHER,
        "dispatcher_leases.lease_of": _DISPATCHER,
        "run_ends.find": _WORK,
        "run_ends.sweep": _UPKEEP,
        "run_ends.watched": _WORK,
        "webhooks.find": _WEBHOOK,
        "webhooks.among": _WEBHOOK,
        "webhooks.sweep": _UPKEEP,
        "webhooks.has_active": _WORK,
        "webhooks.due": _WORK,
        "webhooks.next_due": _WORK,
        "webhooks.counts": "numbers alone, for the metrics and the report on health",
        "webhooks.take": _WORK,
        "webhooks.save": _WORK,
        "webhooks.letters": _WEBHOOK,
        "webhooks.attempts": _WEBHOOK,
        "webhooks.queue_letters": _WEBHOOK,
    }
)
"""Module and function, or class and method, of each query -> the reason."""
