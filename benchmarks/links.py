"""What messages and requests cost in a lab beyond computing, measured, as a cost model takes it."""

from __future__ import annotations

from partita.cluster import Link
from partita.fabric import Endpoint
from partita.leader import measure_link
from partita.profile import fit_link

#: Message sizes in bytes.
SIZES = (4096, 65_536, 262_144, 1_048_576)
REPEATS = 9


def measure_free_link(endpoint: Endpoint, source: str, target: str) -> Link:
    """Return the link between two workers of a lab that is not shaped, as this machine has it."""
    samples = measure_link(endpoint, source, target, SIZES, repeats=REPEATS)
    found = fit_link([(sample.size_bytes, sample.seconds) for sample in samples])
    return Link(source, target, found.bytes_per_s, latency_s=found.per_message_s)
