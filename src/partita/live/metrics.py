"""A snapshot for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from partita.live.snapshot import Snapshot

_STATES = ("runs", "silent", "lost", "idle")


class SnapshotCollector(Collector):
    """Metrics of sessions, made when they are asked for.

    Args:
        takes: Per model, what makes a snapshot of its session; its name is a label.
    """

    def __init__(self, takes: Mapping[str, Callable[[], Snapshot]]) -> None:
        self._takes = takes

    def describe(self) -> Iterator[Metric]:
        """Nothing: to be registered takes no snapshot."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """All metrics of one snapshot each; what is not known yet is left out."""
        families: dict[str, Metric] = {}
        for model, take in self._takes.items():
            for metric in _list_metrics(take()):
                family = families.setdefault(metric.name, metric)
                named = [
                    sample._replace(labels={"model": model, **sample.labels})
                    for sample in metric.samples
                ]
                family.samples = named if family is metric else [*family.samples, *named]
        yield from families.values()


def write_metrics(takes: Mapping[str, Callable[[], Snapshot]]) -> bytes:
    """The metrics of a snapshot of each model in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(takes))
    return generate_latest(registry)


def _list_metrics(now: Snapshot) -> Iterator[Metric]:
    yield from _count_requests(now)
    yield from _measure_devices(now)
    yield from _measure_links(now)
    changes = CounterMetricFamily(
        "partita_plan_changes", "Changes of plan by outcome.", labels=["outcome"]
    )
    for outcome, count in now.outcomes.items():
        changes.add_metric([outcome], count)
    yield changes


def _count_requests(now: Snapshot) -> Iterator[Metric]:
    yield CounterMetricFamily("partita_requests", "Requests answered.", value=now.answers)
    yield GaugeMetricFamily("partita_requests_open", "Requests under way.", value=now.open)
    yield GaugeMetricFamily("partita_requests_waiting", "Requests not fed yet.", value=now.waiting)
    rates = GaugeMetricFamily(
        "partita_images_per_second", "Requests answered per second.", labels=["source"]
    )
    latency = GaugeMetricFamily(
        "partita_latency_seconds", "Latency of requests.", labels=["source", "quantile"]
    )
    expected = now.expected
    for source, rate, p50_s, p99_s in (
        ("measured", now.images_per_s, now.p50_s, now.p99_s),
        *(
            [("predicted", expected.images_per_s, expected.p50_s, expected.p99_s)]
            if expected
            else []
        ),
    ):
        if rate is not None:
            rates.add_metric([source], rate)
        for quantile, seconds in (("0.5", p50_s), ("0.99", p99_s)):
            if seconds is not None:
                latency.add_metric([source, quantile], seconds)
    yield from (rates, latency)


def _measure_devices(now: Snapshot) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "partita_device_state", "1 for the state of a device.", labels=["device", "state"]
    )
    busy = GaugeMetricFamily(
        "partita_device_busy_ratio", "Share of time that it computes.", labels=["device", "source"]
    )
    queue = GaugeMetricFamily(
        "partita_device_queue", "Others that a step finds before it.", labels=["device"]
    )
    memory = GaugeMetricFamily(
        "partita_device_memory_bytes", "Held beyond an idle worker.", labels=["device"]
    )
    for view in now.devices:
        for name in _STATES:
            state.add_metric([view.name, name], view.state == name)
        for source, share in (("measured", view.busy), ("predicted", view.expected)):
            if share is not None:
                busy.add_metric([view.name, source], share)
        if view.state == "runs":
            queue.add_metric([view.name], view.queue)
            memory.add_metric([view.name], view.memory_bytes)
    yield from (state, busy, queue, memory)


def _measure_links(now: Snapshot) -> Iterator[Metric]:
    ends = ["from", "to"]
    moved = GaugeMetricFamily("partita_link_bytes_per_second", "Payload of a link.", labels=ends)
    load = GaugeMetricFamily(
        "partita_link_load_ratio", "Payload over the link's rate.", labels=[*ends, "source"]
    )
    for view in now.links:
        pair = [view.source, view.target]
        moved.add_metric(pair, view.bytes_per_s)
        for source, share in (("measured", view.load), ("predicted", view.expected)):
            if share is not None:
                load.add_metric([*pair, source], share)
    yield from (moved, load)
