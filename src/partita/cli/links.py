"""``partita profile --links``: what messages between a cluster's workers cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Message sizes between two workers, in bytes.
_SIZES = (0, 4096, 65536, 262144, 1048576)


def profile_links(path: Path | None, output: Path | None, access: Any) -> Any:
    """Measure every link of a cluster's workers, emulated ones if need be; return the reply.

    Raises:
        InputError: No cluster file is given, or the file cannot be written.
    """
    from itertools import permutations

    from partita.api import open_endpoint
    from partita.cli.output import Reply, check_output, progress_bar, say, write_output
    from partita.cluster import load_cluster
    from partita.errors import InputError
    from partita.leader import measure_link

    if path is None:
        raise InputError("--links needs --cluster FILE.", subject="--cluster")
    check_output(output, path)
    lab = load_cluster(path)
    found = []
    say("connecting to the workers")
    with open_endpoint(lab, access) as endpoint, progress_bar("links") as advance:
        pairs = [pair for pair in permutations(lab.names, 2) if lab.link(*pair)]
        wait_for(endpoint, lab.names)
        for done, (source, target) in enumerate(pairs):
            advance(done, len(pairs), f"{source} to {target}")
            samples = measure_link(endpoint, source, target, _SIZES)
            found.append(describe_link(source, target, samples))
    text = "".join(link_toml(one) for one in found)
    if output is not None:
        write_output(output, text.encode())
    return Reply({"links": found}, [_link_table(found), *([f"Written to {output}"] * bool(output))])


def wait_for(endpoint: Any, names: tuple[str, ...], timeout_s: float = 10.0) -> None:
    """Return when all workers are there.

    Raises:
        RunError: One is missing; the message names it.
    """
    from partita.leader.worker_group import WorkerGroup

    WorkerGroup(endpoint, list(names)).wait(timeout_s)


def describe_link(source: str, target: str, samples: Any) -> dict[str, Any]:
    """Return one link's figures: samples by size, and the line through them."""
    from partita.profile import fit_link

    cost = fit_link([(sample.size_bytes, sample.seconds) for sample in samples])
    return {
        "from": source,
        "to": target,
        "message_s": cost.per_message_s,
        "bytes_per_s": cost.bytes_per_s,
        "samples": [
            {
                "bytes": sample.size_bytes,
                "seconds": sample.seconds,
                "spread_s": sample.spread_s,
                "count": sample.count,
            }
            for sample in samples
        ],
    }


def link_toml(link: dict[str, Any]) -> str:
    """Return a link as lines of a cluster file."""
    return (
        f'[[link]]\nfrom = "{link["from"]}"\nto = "{link["to"]}"\n'
        f'bandwidth = "{link["bytes_per_s"] * 8 / 1e6:.3f} Mbit/s"\n'
        f'latency = "{link["message_s"] * 1e3:.4f} ms"\n\n'
    )


def _link_table(found: list[dict[str, Any]]) -> Any:
    from partita.report import draw_table
    from partita.report.tables import TableData
    from partita.units import format_bandwidth, format_seconds

    rows = tuple(
        (
            f"{one['from']} to {one['to']}",
            format_seconds(one["message_s"]),
            format_bandwidth(one["bytes_per_s"]),
            *(format_seconds(sample["seconds"]) for sample in one["samples"]),
        )
        for one in found
    )
    columns = ("link", "per message", "rate", *(f"{size:,} B" for size in _SIZES))
    return draw_table(TableData("Links", columns, rows))
