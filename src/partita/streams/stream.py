"""Inputs that keep coming, answered in their order by a session that keeps running."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from partita.errors import InputError, PartitaError, RunError
from partita.execution.histograms import TimeHistogram
from partita.leader import Session
from partita.quantisation.pictures import Preparation
from partita.quantisation.samples import Feeds
from partita.streams.items import Content, Source
from partita.streams.prepare import Prepare, Preparer
from partita.streams.reader import Read, Reader
from partita.streams.source import GivenSource, find_source

#: Seconds after which a stream that waits looks whether its source is silent. Not tuned.
_LOOK_S = 0.2
#: Inputs that are decoded and prepared at the same time, by a thread each; where the newest are
#: wanted, or a user's function prepares, which need not bear it, one. Not tuned.
_THREADS = min(4, os.cpu_count() or 1)
#: Answers that the present rate is of. Not tuned.
_RECENT = 30
#: Names of bad inputs that are kept.
_NAMED = 20


@dataclass(frozen=True)
class StreamOptions:
    """How a stream is read and fed.

    Attributes:
        prepare: How pictures become inputs, or a function that is given what each input holds
            (pixels of height x width x 3, RGB, or an array) and returns the model's input, or
            inputs by name.
        in_flight: Most requests under way at the same time; None for what the session allows.
        rate: Most inputs read per second; None for as many as can be answered.
        drops: Whether new inputs take the place of the oldest that wait; else reading waits. None
            for what fits the source: cameras and addresses do not wait.
        stall_s: Seconds without an input after which the stream counts as broken.
        skips_bad: Whether inputs that cannot be decoded are left out; else the first ends the
            stream, after the answers to those before it.
        follows: Whether files that come into the folder later are inputs, too.
        on_bad: Told of each input that is left out.
    """

    prepare: Preparation | Prepare | None = None
    in_flight: int | None = None
    rate: float | None = None
    drops: bool | None = None
    stall_s: float = 10.0
    skips_bad: bool = False
    follows: bool = False
    on_bad: Callable[[InputError], None] | None = None


@dataclass(frozen=True)
class StreamAnswer:
    """The answer to one input of a stream.

    Attributes:
        name: Of the input: its file, or ``VIDEO#NUMBER``.
        content: What the input holds: pixels (height x width x 3, RGB), an array, or arrays by
            name, as they were before they were prepared.
        outputs: An array per output of the model.
        latency_s: Seconds from when the input was read.
    """

    name: str
    content: Content
    outputs: Feeds
    latency_s: float


@dataclass
class StreamCounts:
    """How a stream goes; may be read while it does.

    Attributes:
        answered: Inputs with an answer.
        bad: Inputs that could not be decoded.
        bad_names: The first of them.
        latencies: From when an input was read to its answer.
    """

    answered: int = 0
    bad: int = 0
    bad_names: list[str] = field(default_factory=list)
    latencies: TimeHistogram = field(default_factory=TimeHistogram)
    first_s: float = 0.0
    last_s: float = 0.0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    @property
    def images_per_second(self) -> float:
        """The sustained rate, from the first input's reading to the last answer."""
        return self.answered / (self.last_s - self.first_s) if self.answered else 0.0

    @property
    def recent_per_second(self) -> float:
        """The rate of the last answers."""
        if len(self.recent) < 2 or self.recent[-1] <= self.recent[0]:
            return 0.0
        return (len(self.recent) - 1) / (self.recent[-1] - self.recent[0])

    def count(self, read_s: float, end_s: float) -> None:
        """Count an answer."""
        self.first_s = self.first_s or read_s
        self.last_s = max(self.last_s, end_s)
        self.answered += 1
        self.latencies.add(end_s - read_s)
        self.recent.append(end_s)


class _Fed:
    """An input under way.

    Attributes:
        end_s: When its answer, or an error, was there; 0 before.
    """

    def __init__(
        self, read: Read, content: Content, future: Future[Feeds], wake: Callable[[], None]
    ) -> None:
        self.read, self.content, self.future = read, content, future
        self.end_s = 0.0
        self._wake = wake
        future.add_done_callback(self._end)

    def _end(self, _: object) -> None:
        self.end_s = time.monotonic()
        self._wake()


class Stream(Iterator[StreamAnswer]):
    """An iterator over the answers to a stream's inputs, in their order; see :func:`stream`.

    Attributes:
        counts: How it goes.
        session: That answers.
    """

    def __init__(
        self,
        session: Session,
        source: Source,
        options: StreamOptions | None = None,
        *,
        written: Collection[str] = (),
    ) -> None:
        options = options or StreamOptions()
        self.session = session
        self.counts = StreamCounts()
        self._options = options
        self._limit = session.limit_in_flight(options.in_flight)
        self._preparer = Preparer(session.program.inputs, options.prepare)
        self._stall_s = float("inf") if source.waits else options.stall_s
        self._changed = threading.Condition()
        drops = source.is_live if options.drops is None else options.drops
        self._reader = Reader(source, written, options.rate, drops=drops, changed=self._changed)
        self._under_way: deque[_Fed] = deque()
        self._threads = 1 if drops or callable(options.prepare) else _THREADS
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="stream/prepare")
        self._preparing: deque[tuple[Read, Future[tuple[Content, Feeds]]]] = deque()
        self._fault: PartitaError | None = None
        self._answers = self._run()

    @property
    def dropped(self) -> int:
        """Inputs whose place newer ones took."""
        return self._reader.dropped

    def close(self) -> None:
        """Read no more; requests under way are left to the session. May be repeated."""
        self._reader.stop()
        self._answers.close()

    def __next__(self) -> StreamAnswer:
        return next(self._answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> Generator[StreamAnswer]:
        self.session.begin_report()
        self._reader.start()
        try:
            while self._wait():
                if self._can_prepare:
                    self._prepare_next()
                elif self._can_feed:
                    self._feed_next()
                elif self._is_answered:
                    yield self._finish(self._under_way.popleft())
        finally:
            self._reader.stop()
            self._pool.shutdown(wait=False, cancel_futures=True)
        fault = self._fault or self._reader.error
        if fault is not None:
            raise fault

    @property
    def _can_prepare(self) -> bool:
        return self._reader.has_next and len(self._preparing) < self._threads

    @property
    def _can_feed(self) -> bool:
        unanswered = sum(not fed.end_s for fed in self._under_way)
        is_ready = bool(self._preparing) and self._preparing[0][1].done()
        return is_ready and unanswered < self._limit

    @property
    def _is_answered(self) -> bool:
        return bool(self._under_way and self._under_way[0].end_s)

    def _wait(self) -> bool:
        """Return when there is something to do; whether there ever will be."""
        with self._changed:
            while True:
                if self._can_prepare or self._can_feed or self._is_answered:
                    return True
                if self._reader.is_over and not self._preparing and not self._under_way:
                    return False
                self._changed.wait(_LOOK_S)
                self._check_silence()

    def _check_silence(self) -> None:
        silent_s = self._reader.silent_s
        if silent_s > self._stall_s and not self._reader.is_over:
            self._stop(RunError(f"The stream stalls: no input for {self._stall_s:g} s."))

    def _stop(self, fault: PartitaError) -> None:
        """Read no more; what is under way is answered before the fault is raised."""
        self._fault = self._fault or fault
        self._reader.stop()

    def _prepare_next(self) -> None:
        with self._changed:
            if not self._reader.has_next:
                return
            read = self._reader.take()
        future = self._pool.submit(self._preparer.prepare, read.item)
        self._preparing.append((read, future))
        future.add_done_callback(self._wake)

    def _feed_next(self) -> None:
        read, prepared = self._preparing.popleft()
        try:
            content, feeds = prepared.result()
        except InputError as error:
            self._leave_out(read, error)
            return
        answer = self.session.submit(feeds)
        self._under_way.append(_Fed(read, content, answer, self._wake))

    def _leave_out(self, read: Read, error: InputError) -> None:
        if not self._options.skips_bad:
            self._preparing.clear()  # of what came after it
            self._stop(error)
            return
        self.counts.bad += 1
        if len(self.counts.bad_names) < _NAMED:
            self.counts.bad_names.append(read.item.name)
        if self._options.on_bad is not None:
            self._options.on_bad(error)

    def _wake(self, _: object = None) -> None:
        with self._changed:
            self._changed.notify_all()

    def _finish(self, fed: _Fed) -> StreamAnswer:
        outputs = fed.future.result()
        self.counts.count(fed.read.at_s, fed.end_s)
        latency_s = fed.end_s - fed.read.at_s
        return StreamAnswer(fed.read.item.name, fed.content, outputs, latency_s)


def stream(
    session: Session,
    source: str | Path | Iterable[tuple[str, Content]],
    options: StreamOptions | None = None,
    *,
    written: Collection[str] = (),
) -> Stream:
    """The answers to a stream's inputs, one after the other, in the order of the inputs.

    Args:
        source: A folder, a file, a video, a camera, an address, ``-`` for standard input; or pairs
            of a name and what it holds: pixels (height x width x 3 bytes, RGB), an array, or arrays
            by name.
        written: Names of inputs that are left out; frames of a video go on after the last of them.

    Raises:
        InputError: The source cannot be read, or the model takes no such inputs. While it runs:
            an input that cannot be decoded.
        RunError: While it runs: no input comes, or the session fails.
    """
    options = options or StreamOptions()
    if isinstance(source, str | Path):
        known: Source = find_source(str(source), follows=options.follows)
    else:
        known = GivenSource(source)
    known.check()
    return Stream(session, known, options, written=written)
