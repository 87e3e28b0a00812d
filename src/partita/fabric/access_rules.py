"""Zenoh's access rules for the members of a cluster: what each may send, ask and hear.

A rule is about what comes in from a certificate's owner (``ingress``), by the certificate's common
name, which Zenoh takes from the connection. Nothing else comes in. What goes out needs no rules of
its own but one, for members: it goes to those alone whose subscriptions came in.

What comes through a router carries the router's certificate. Routers apply the same rules to what
comes in to them, so that what they pass on may be under any member's name: they are trusted.
"""

from __future__ import annotations

from collections.abc import Sequence

from partita.fabric.key_expressions import Keys
from partita.fabric.members import ROUTER, Member

_LOOK = ("liveliness_query", "declare_liveliness_subscriber")
_ALL = (
    "put",
    "declare_subscriber",
    "query",
    "reply",
    "declare_queryable",
    "liveliness_token",
    *_LOOK,
)


def write_rules(cluster: str, members: Sequence[Member]) -> dict[str, object]:
    """The value of ``access_control`` in Zenoh's configuration."""
    keys = Keys(cluster)
    shared = [
        _rule("out", "egress", _ALL, "**"),
        # Any cluster's: who looks whether a worker is in another one asks for all of them.
        _rule("look", "ingress", _LOOK, Keys("*").alive("*", "*")),
    ]
    owned = {m.subject: _list_rules(keys, m) for m in members if m.role != ROUTER}
    rules = [rule for own in owned.values() for rule in own]
    everybody = {"rules": [r["id"] for r in shared], "subjects": [m.subject for m in members]}
    each = [
        {"rules": [r["id"] for r in owned.get(m.subject, rules)], "subjects": [m.subject]}
        for m in members
    ]
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": shared + rules,
        "subjects": [{"id": m.subject, "cert_common_names": [m.subject]} for m in members],
        "policies": [everybody, *each],
    }


def _list_rules(keys: Keys, member: Member) -> list[dict[str, object]]:
    """What comes in from a member: under its own name and role, and of what is meant for it."""
    own = member.sources
    allowed = {
        ("put",): (keys.data("*", own), keys.note("*", own)),
        ("query",): (keys.call("*", member.role, own),),
        ("declare_subscriber",): (keys.data(own, "*"), keys.note(own, "*")),
        ("declare_queryable", "reply"): (keys.call(own, "*", "*"),),
        ("liveliness_token",): (keys.alive(own, "*"),),
    }
    return [
        _rule(f"{member.subject}: {messages[0]}", "ingress", messages, *expressions)
        for messages, expressions in allowed.items()
    ]


def _rule(name: str, flow: str, messages: Sequence[str], *expressions: str) -> dict[str, object]:
    return {
        "id": name,
        "permission": "allow",
        "flows": [flow],
        "messages": list(messages),
        "key_exprs": list(expressions),
    }
