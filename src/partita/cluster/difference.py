"""How two clusters differ in what a plan is made for."""

from __future__ import annotations

from partita.cluster.model import Cluster


def list_differences(old: Cluster, new: Cluster) -> list[str]:
    """Everything by which ``new.hash`` is another than ``old.hash``, each in words.

    Values that are measured, such as rates, are no structure and are not compared.
    """
    was, now = _describe(old), _describe(new)
    return [
        f"{thing} was {was.get(thing, 'missing')}, is {now.get(thing, 'missing')}"
        for thing in dict.fromkeys((*was, *now))
        if was.get(thing) != now.get(thing)
    ]


def _describe(cluster: Cluster) -> dict[str, str]:
    """Each part of the structure, and what is said of it."""
    return {
        **{f"device '{device.name}'": f"of kind '{device.kind}'" for device in cluster.devices},
        **{
            f"link '{link.source} → {link.target}'": f"on medium '{link.medium}'"
            if link.medium
            else "there"
            for link in cluster.links
        },
        "the requester": f"'{cluster.requester}'",
    }
