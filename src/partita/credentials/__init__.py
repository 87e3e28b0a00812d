"""A site's own authority: who may join a cluster, and the files with which they do."""

from partita.credentials.site import (
    Joiner,
    Site,
    add_member,
    list_periods,
    load_site,
    make_site,
    renew_members,
    revoke_member,
)

__all__ = [
    "Joiner",
    "Site",
    "add_member",
    "list_periods",
    "load_site",
    "make_site",
    "renew_members",
    "revoke_member",
]
