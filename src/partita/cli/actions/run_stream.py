"""Running a plan on a stream of inputs, whose answers are written as they come."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from partita.api import find_outsiders, open_endpoint
from partita.cli.access import read_access, say_where
from partita.cli.actions.deployed import Opened, find_unlike_lab, open_session
from partita.cli.actions.run import (
    Ran,
    RunOptions,
    begin_run,
    conclude_run,
    describe_run,
    write_run,
)
from partita.cli.actions.simulate import read_adapt
from partita.cli.actions.watched import Scenes, check_page, watch_session
from partita.cli.costs import allow_in_flight, read_cost
from partita.cli.flags import AccessFlags, AdaptFlags, PlanFiles, StreamFlags
from partita.cli.functions import load_function
from partita.cli.inputs import draw_inputs
from partita.cli.interrupt import INTERRUPTED
from partita.cli.output import Reply, check_folder, live_line, say
from partita.cli.pictures import read_pictures
from partita.cli.sources import read_plan
from partita.errors import InputError, PartitaError
from partita.graph import Graph
from partita.quantisation import count_classes
from partita.streams import (
    MOST_NUMBERS,
    Describe,
    Preparer,
    Sink,
    Source,
    Stream,
    StreamOptions,
    TopClasses,
    UserAnswer,
    find_source,
    is_lines,
    open_sink,
)
from partita.units import format_seconds

#: Requests of the prediction beside a stream, which has no number of its own. Not tuned.
_SIMULATED = 100


@dataclass(frozen=True)
class Streaming:
    """What is to be done with a stream: everything is checked before workers are asked."""

    source: Source
    sink: Sink
    options: StreamOptions


def run_stream(
    files: PlanFiles,
    asked: StreamFlags,
    access: AccessFlags,
    adapting: AdaptFlags,
    options: RunOptions,
) -> Reply:
    """Answer a stream; the reply says how it went, exit code 130 where Ctrl-C ended it.

    Raises:
        InputError: A file or a flag cannot be used, or an input cannot be decoded.
        PlanError: The plan is not for this model and cluster.
        RunError: A worker is missing, refuses or fails, or the stream stalls.
    """
    read_adapt(adapting)
    check_folder(options.report)
    if options.watch.page is not None:
        check_page(options.watch.page)
    loaded = read_plan(files)
    cost = read_cost(loaded.graph, loaded.cluster, files)
    loaded = replace(loaded, plan=allow_in_flight(loaded.plan, cost, options.in_flight))
    streaming = _check_stream(asked, loaded.graph, options.in_flight)
    try:
        reach = read_access(access, leads=True)
        say_where(loaded.cluster, reach)
        leader = open_endpoint(loaded.cluster, reach, ())
        outsiders = find_outsiders(loaded.cluster, reach)
        with open_session(loaded, leader, cost, adapting, outsiders=outsiders) as opened:
            feeds = draw_inputs(loaded.graph.input_specs, 1, 0)[0]
            began = begin_run(opened, feeds, options)
            scenes = Scenes(loaded, opened.cost, opened.replanner)
            with watch_session(opened.session, scenes, options.watch):
                stream, is_whole = _write_answers(opened, streaming, asked, options)
            ran = None
            if is_whole and stream.counts.answered:
                requests = min(stream.counts.answered, _SIMULATED)
                ran = conclude_run(loaded, opened, began, requests, options.in_flight)
    finally:
        streaming.sink.close()
    if ran is not None and not adapting.adapt and not ran.changes:
        ran = replace(ran, changes=None)
    if ran is not None:
        ran = replace(ran, unlike_lab=find_unlike_lab(cost, loaded.plan, reach))
    reply = _describe(ran, stream, streaming, asked)
    reply.exit_code = reply.exit_code if is_whole else INTERRUPTED
    if options.report is not None and ran is not None:
        page = write_run(options.report, ran, _list_facts(stream))
        reply.payload["report"] = str(page)
        reply.shown.append(f"Report written to {page}")
    return reply


def _check_stream(asked: StreamFlags, graph: Graph, in_flight: int | None) -> Streaming:
    for flag, value, allowed in (
        ("--when-full", asked.when_full, (None, "drop", "wait")),
        ("--on-bad", asked.on_bad, ("skip", "stop")),
    ):
        if value not in allowed:
            names = ", ".join(filter(None, allowed))
            raise InputError(f"{flag} is '{value}', allowed: {names}.", subject=flag)
    source = find_source(asked.source, follows=asked.follows)
    source.check()
    how = read_pictures(asked.pictures)
    Preparer(graph.input_specs, how)
    if _is_same(asked.source, asked.sink):
        raise InputError(
            f"Sink '{asked.sink}' is the stream itself; give the answers another place.",
            subject=asked.sink,
        )
    options = StreamOptions(
        prepare=how,
        in_flight=in_flight,
        rate=asked.rate,
        drops=None if asked.when_full is None else asked.when_full == "drop",
        stall_s=asked.stall_s,
        skips_bad=asked.on_bad == "skip",
        follows=asked.follows,
        on_bad=lambda error: say(f"left out: {error.message}"),
    )
    return Streaming(source, open_sink(asked.sink, _choose_words(asked, graph)), options)


def _is_same(source: str, sink: str) -> bool:
    paths = Path(source), Path(sink)
    return all(path.exists() for path in paths) and paths[0].samefile(paths[1])


def _choose_words(asked: StreamFlags, graph: Graph) -> Describe | None:
    """What lines say of an answer; None for all numbers.

    Raises:
        InputError: These are too many for a line, or no classes.
    """
    if asked.classes is not None and asked.answer is not None:
        raise InputError("--classes does not go with --answer.", subject="--classes")
    if asked.answer is not None:
        return UserAnswer(load_function(asked.answer, "--answer", "frames:describe"))
    if asked.classes is not None:
        if count_classes(graph) is None:
            raise InputError(
                f"--classes: model '{graph.name}' answers no scores of classes.",
                subject="--classes",
            )
        return TopClasses(asked.classes)
    numbers = sum(prod(graph.tensors[name].shape) for name in graph.outputs)
    if numbers > MOST_NUMBERS and is_lines(asked.sink):
        raise InputError(
            f"An answer of model '{graph.name}' has {numbers} numbers, a line of JSON holds"
            f" {MOST_NUMBERS}: give a folder as --sink, --classes, or --answer.",
            subject="--sink",
        )
    return None


def _write_answers(
    opened: Opened, streaming: Streaming, asked: StreamFlags, options: RunOptions
) -> tuple[Stream, bool]:
    """Write answers until the stream ends; whether it did so by itself, and not by Ctrl-C."""
    sink = streaming.sink
    stream = Stream(opened.session, streaming.source, streaming.options, written=sink.written)
    is_taken = options.watch.top or (asked.sink == "-" and sys.stdout.isatty())
    written = 0
    with stream, live_line(lambda: _say_state(stream), hidden=is_taken):
        try:
            for answer in stream:
                sink.write(answer)
                written += 1
        except KeyboardInterrupt:
            return stream, False
        except PartitaError:
            say(f"{_count_answers(written)} {'was' if written == 1 else 'were'} written")
            raise
    return stream, True


def _say_state(stream: Stream) -> str:
    """How a stream goes, in a line."""
    counts, lost = stream.counts, stream.session.lost
    return (
        f"{_count_answers(counts.answered)}, {counts.recent_per_second:.3g} images/s,"
        f" p50 {format_seconds(counts.latencies.quantile_s(0.5))},"
        f" p99 {format_seconds(counts.latencies.quantile_s(0.99))},"
        f" {stream.dropped} dropped, {counts.bad} left out" + (f", without {lost}" if lost else "")
    )


def _describe(ran: Ran | None, stream: Stream, streaming: Streaming, asked: StreamFlags) -> Reply:
    """The reply: a run's, where there was one, and how the stream went."""
    counts = stream.counts
    reply = Reply({}) if ran is None else describe_run(ran)
    reply.payload["stream"] = {
        "source": asked.source,
        "sink": asked.sink,
        "answered": counts.answered,
        "answered_before": len(streaming.sink.written),
        "dropped": stream.dropped,
        "bad": counts.bad,
        "bad_inputs": list(counts.bad_names),
        "images_per_second": counts.images_per_second,
        "latency_s": {
            name: counts.latencies.quantile_s(part) if counts.answered else None
            for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        },
    }
    reply.shown += [f"{name}: {value}" for name, value in _list_facts(stream)]
    if asked.sink != "-":
        before = len(streaming.sink.written)
        more = f", which had {before} before" if before else ""
        reply.shown.append(f"Answers written to {asked.sink}{more}")
    return reply


def _list_facts(stream: Stream) -> tuple[tuple[str, str], ...]:
    """How a stream went, by name."""
    counts, quantile_s = stream.counts, stream.counts.latencies.quantile_s
    took = ", ".join(
        f"{name} {format_seconds(quantile_s(part))}"
        for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    )
    more = counts.bad - len(counts.bad_names)
    names = [*counts.bad_names, *([f"{more} more"] if more else [])]
    named = f" ({', '.join(names)})" if names else ""
    left_out = ("Left out", f"{stream.dropped} dropped, {counts.bad} not decoded{named}")
    if not counts.answered:
        return ("Stream", "nothing to answer was left"), left_out
    answers = f"{_count_answers(counts.answered)}, {counts.images_per_second:.3g} images/s"
    return ("Stream", answers), ("From reading to answer", took), left_out


def _count_answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count} answers"
