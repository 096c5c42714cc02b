"""The words of the pages in one catalogue, so that another language is another column."""

from __future__ import annotations

from collections.abc import Mapping

ENGLISH = "en"

_WORDS: dict[str, dict[str, str]] = {
    ENGLISH: {
        "cluster": "Cluster", "topics": "Topics", "groups": "Groups", "audit": "Changes", "messages": "Messages",
        "search": "Search", "search_hint": "topic, group or message id", "read_only": "read-only",
        "keys_help": "Keys: / search, g t topics, g g groups, g c cluster", "skip": "Skip to content",
        "previous": "Previous", "next": "Next", "older": "Older", "newest": "Newest", "page": "Page", "of": "of",
        "total": "total", "none": "None.", "yes": "yes", "no": "no", "filter": "Filter", "show": "Show",
        "all": "all", "kind": "Kind", "name": "Name", "silent": "These brokers did not answer; their part is missing:",
        "unknown": "? stands for what is not known.", "error": "Error", "broker": "Broker", "role": "Role",
        "address": "Address", "version": "Version", "in_s": "In/s", "out_s": "Out/s", "in_today": "In today",
        "out_today": "Out today", "disk": "Disk used", "up_since": "Up since", "topic": "Topic", "type": "Type",
        "queues": "Queues", "queue": "Queue", "perm": "Permission", "last_stored": "Last stored", "brokers": "Brokers",
        "min_offset": "Min offset", "max_offset": "Max offset", "configuration": "Configuration", "routes": "Routes",
        "attributes": "Attributes", "consumers": "Consumer groups", "group": "Group", "lag": "Lag",
        "members": "Members", "last_consumed": "Last consumed", "dead_letters": "Dead letters", "by_lag": "by lag",
        "by_name": "by name", "sort": "Sort", "committed": "Committed", "expired": "Deleted unread",
        "waiting": "Oldest waiting", "owner": "Owner", "held": "Held", "last_pull": "Last pull",
        "client_id": "Client id", "language": "Language", "done_s": "Consumed/s", "failed_s": "Failed/s",
        "subscriptions": "Subscriptions", "expression": "Expression", "reset": "Reset offsets", "stored": "Stored",
        "offset": "Offset", "msg_id": "Message id", "tags": "Tag", "keys": "Keys", "size": "Bytes", "body": "Body",
        "key": "Key or id", "since": "Since", "until": "Until", "find": "Find", "go": "Go",
        "stopped": "The scan stopped at its limit of", "looked_at": "Offsets looked at:",
        "message": "Message", "fields": "Fields", "own_properties": "Properties of the application",
        "system_properties": "Properties of clients and brokers", "cut": "The body is cut:", "show_all": "Show all",
        "download": "Download", "decoded_as": "shown as", "in_groups": "In consumer groups", "status": "Status",
        "retries": "Retries", "trace": "Trace", "what": "What", "host": "Host", "cost": "ms", "success": "Success",
        "resend": "Resend", "resend_to": "Send to", "to_topic": "the original topic (all its groups)",
        "to_group": "the retry topic (this group only)", "origin": "Original topic", "resent": "Resent",
        "attempts": "Attempts", "preview": "This is what happens; nothing is changed yet.", "confirm": "Do it",
        "target": "Reset to", "value": "Time, offset or shift", "from": "From", "to": "To", "again": "Come again",
        "skipped": "Skipped", "gone": "Already deleted", "what_if": "What if?", "force": "Members are connected; reset "
        "them, too", "result": "Result", "at": "At", "action": "Action", "choose": "Choose", "new_id": "New message id",
        "earliest": "earliest", "latest": "latest", "time": "time", "shift": "shift", "born": "Born",
        "left_out": "Not asked about, for the page's limit:", "more_keys": "There may be more: the newest of each "
        "broker are shown.", "utc": "Times are UTC.", "as": "As",
    },
}  # fmt: skip


def language(asked: str | None, accepted: str) -> str:
    """Return the language of a page.

    :param asked: what the query asks for; None if it does not.
    :param accepted: the Accept-Language header.
    """
    wanted = [asked or "", *(part.partition(";")[0].strip() for part in accepted.split(","))]
    return next((name for part in wanted if (name := part[:2].lower()) in _WORDS), ENGLISH)


def words(chosen: str) -> Mapping[str, str]:
    """Return the words of a language."""
    return _WORDS[chosen]
