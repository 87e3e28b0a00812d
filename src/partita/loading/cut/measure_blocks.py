"""Measuring what the blocks of a model cost to load and to run on this machine."""

from __future__ import annotations

import mmap
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from partita.compile import Compiled
from partita.engine import make_feeds
from partita.engine.onnx_facts import read_facts
from partita.graph import Graph
from partita.loading.bundle.manifest import check_count, engine_name, processor_signature
from partita.loading.bundle.ort_session import open_child
from partita.loading.cut.blocks import Block, BlockProfile, choose_borders
from partita.loading.cut.page_cache import forget, settle
from partita.loading.write.child_models import PAGE_BYTES, cut_children, optimise, place_weights
from partita.loading.write.write_bundle import Progress

#: Times that anything is measured, at most: a slip of the keyboard must not take days.
MOST_REPEATS = 1000
#: Pairs of children, the largest, that load at the same time to see how they hold each other up.
#: Not tuned: a median of some, where small children would say little.
_PAIRS = 4


@dataclass(frozen=True)
class ChildFile:
    """Some layers on disk, as a child of its own."""

    graph: Path
    weights: Path
    size_bytes: int

    def open(self, threads: int, *, prepack: bool = False) -> Any:
        """The engine's session as a bundle in use makes it."""
        return open_child(self.graph, threads, prepack=prepack)

    def touch(self) -> float:
        """The seconds to map the weights and to read a byte of each page.

        The system is asked for all of them before, as by a bundle in use.
        """
        began_s = time.perf_counter()
        if not self.size_bytes:
            return 0.0
        with self.weights.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
            # It goes with the last array that refers to it: closing it fails while one does.
            held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            int(np.frombuffer(held, np.uint8)[::PAGE_BYTES].sum())
            return time.perf_counter() - began_s

    def forget(self) -> None:
        """Let the system drop the weights from its page cache."""
        forget([self.weights])


class _Seconds(NamedTuple):
    """What one child took, once or in the median."""

    create: float
    prepack: float
    warm: float
    cold: float
    first: float
    infer: float

    @classmethod
    def median(cls, rounds: Sequence[_Seconds]) -> _Seconds:
        """The median of each."""
        return cls(*map(statistics.median, zip(*rounds, strict=True)))


@dataclass(frozen=True)
class _Measured:
    """What was measured of all blocks and of the whole model.

    Attributes:
        parts: Of each block, as a child of its own.
        whole: Of the model as one child.
        sizes: Bytes of each block's weights.
        contention: How many times longer a session takes to create beside another one.
        cold_contention: The same where both read their weights from disk, too.
    """

    parts: Sequence[_Seconds]
    whole: _Seconds
    sizes: Sequence[int]
    contention: float
    cold_contention: float

    @cached_property
    def child_load_s(self) -> float:
        """What one more child adds to loading."""
        return _fixed([part.create for part in self.parts], self.whole.create)

    @cached_property
    def child_run_s(self) -> float:
        """What one more child adds to a run."""
        return _fixed([part.infer for part in self.parts], self.whole.infer)

    @property
    def read_bytes_per_s(self) -> float:
        """Rate at which weights are read from disk."""
        return sum(self.sizes) / max(sum(part.cold for part in self.parts), 1e-9)

    def blocks(
        self, graph: Graph, ends: Sequence[int], trainable: frozenset[str]
    ) -> tuple[Block, ...]:
        """The blocks: what each child takes beyond its block is taken out of the block."""
        return tuple(
            Block(
                name=graph.layers[start].name,
                first=start,
                stop=stop,
                weight_bytes=size,
                create_s=part.create - self.child_load_s,
                prepack_s=max(0.0, part.prepack),
                read_warm_s=part.warm,
                read_cold_s=part.cold,
                infer_s=part.infer - self.child_run_s,
                first_s=max(0.0, part.first - self.child_run_s),
                trainable=any(layer.name in trainable for layer in graph.layers[start:stop]),
            )
            for (start, stop), size, part in zip(
                pairwise((0, *ends)), self.sizes, self.parts, strict=True
            )
        )


def measure_blocks(
    graph: Graph,
    *,
    most_blocks: int = 24,
    threads: int = 1,
    repeats: int = 5,
    trainable: Sequence[str] = (),
    tuned: bool = True,
    device: str = "this-machine",
    progress: Progress | None = None,
) -> BlockProfile:
    """The profile of the model's blocks on this machine; every time is a median.

    Each block is written as a child of its own and measured in this process, and so is the whole
    model as one child: what all children take beyond that is the fixed cost of one more. Weights
    lie in the folder for temporary files; where that is memory, cold is not slower than warm.

    Args:
        most_blocks: Blocks to divide it into; fewer where it has fewer layers.
        repeats: Times that everything is measured, 1 to 1000.
        tuned: Whether children are optimised for this machine's processor.
        device: What kind of device this machine is.
        progress: Called before each measurement, with the number done, of all, and a name.

    Raises:
        BundleError: There is to be no block, thread or repetition, or a trainable layer is unknown.
    """
    check_count("Threads", threads)
    check_count("Repeats", repeats, MOST_REPEATS)
    ends = choose_borders(graph, most_blocks, tuple(trainable))
    measured = _measure_all(graph, ends, threads, repeats, progress, tuned=tuned)
    return BlockProfile(
        model=graph.name,
        model_hash=graph.hash,
        engine=engine_name(),
        threads=threads,
        tuned=tuned,
        blocks=measured.blocks(graph, ends, frozenset(trainable)),
        child_load_s=measured.child_load_s,
        child_run_s=measured.child_run_s,
        contention=measured.contention,
        cold_contention=measured.cold_contention,
        read_bytes_per_s=measured.read_bytes_per_s,
        device=device,
        processor=processor_signature(),
    )


def _measure_all(
    graph: Graph,
    ends: Sequence[int],
    threads: int,
    repeats: int,
    progress: Progress | None,
    *,
    tuned: bool,
) -> _Measured:
    with tempfile.TemporaryDirectory(prefix="partita-blocks-") as folder:
        home = Path(folder)
        parts = write_parts(cut_children(graph, ends), home, "part", tuned=tuned, threads=threads)
        uncut = cut_children(graph, ends[-1:])
        whole = write_parts(uncut, home, "whole", tuned=tuned, threads=threads)
        settle(list(home.iterdir()))
        children = [*parts, *whole]
        names = [*(graph.layers[start].name for start in (0, *ends[:-1])), graph.name]
        rounds: list[list[_Seconds]] = [[] for _ in children]
        # In rounds over all: the pace of a shared machine wanders, and must not tell them apart.
        for number in range(repeats * len(children)):
            place = number % len(children)
            if progress is not None:
                progress(number, repeats * len(children), names[place])
            rounds[place].append(_measure(children[place], threads))
        contention = _measure_contention(parts, threads, repeats)
    *medians, whole_median = map(_Seconds.median, rounds)
    sizes = [part.size_bytes for part in parts]
    return _Measured(medians, whole_median, sizes, *contention)


def write_parts(
    compiled: Compiled,
    home: Path,
    name: str,
    *,
    tuned: bool,
    threads: int,
    only: int | None = None,
) -> list[ChildFile]:
    """Write children to ``home``, each with a file of weights of its own.

    Args:
        name: What the files' names begin with.
        only: The one to write; all by default.
    """
    children = []
    for number in range(len(compiled.program.fragments)) if only is None else (only,):
        file = f"{name}-{number}.bin"
        model = optimise(compiled, number, tuned=tuned, threads=threads)
        written = place_weights(model, file, 0)
        graph = home / f"{name}-{number}.onnx"
        graph.write_bytes(written.graph)
        with (home / file).open("wb") as stream:
            stream.writelines(written.weights)
        children.append(ChildFile(graph, home / file, written.size_bytes))
    return children


def _measure(child: ChildFile, threads: int) -> _Seconds:
    """What a child takes, measured once."""
    feeds = make_feeds(read_facts(child.graph.read_bytes()).inputs)
    child.touch()
    create_s, session = _time(child.open, threads)
    first_s = _time(session.run, None, feeds)[0]
    infer_s = _time(session.run, None, feeds)[0]
    del session
    prepack_s = _time(child.open, threads, prepack=True)[0] - create_s
    warm_s = child.touch()
    child.forget()
    return _Seconds(create_s, prepack_s, warm_s, child.touch(), first_s, infer_s)


def _measure_contention(
    children: Sequence[ChildFile], threads: int, repeats: int
) -> tuple[float, float]:
    """How many times longer a load takes while another runs: created, and read from disk, too."""
    largest = sorted(children, key=lambda child: child.size_bytes)[-2 * _PAIRS :]
    pairs = list(zip(largest[::2], largest[1::2], strict=False))

    def read(child: ChildFile) -> None:
        child.open(threads)
        child.touch()

    def create(child: ChildFile) -> None:
        child.open(threads)

    def contention(load: Callable[[ChildFile], None], is_cold: bool) -> float:
        factors = [_slow_down(pair, load, is_cold) for pair in pairs for _ in range(repeats)]
        return max(1.0, statistics.median(factors or [1.0]))

    return contention(create, False), contention(read, True)


def _slow_down(
    pair: tuple[ChildFile, ChildFile], load: Callable[[ChildFile], None], is_cold: bool
) -> float:
    """1 and the share by which the longer of two loads is held up by the shorter."""

    def prepare() -> None:
        for child in pair:
            if is_cold:
                child.forget()

    prepare()
    alone = sorted(_time(load, child)[0] for child in pair)
    prepare()
    gate = threading.Barrier(3)

    def enter(child: ChildFile) -> None:
        gate.wait()
        load(child)

    threads = [threading.Thread(target=enter, args=(child,)) for child in pair]
    for thread in threads:
        thread.start()
    gate.wait()
    began_s = time.perf_counter()
    for thread in threads:
        thread.join()
    return 1 + (time.perf_counter() - began_s - alone[1]) / alone[0]


def _fixed(each_s: Sequence[float], whole_s: float) -> float:
    """Seconds that a child takes beyond its part of the whole; no more than the least child."""
    if len(each_s) < 2:
        return 0.0
    return min(max(0.0, (sum(each_s) - whole_s) / (len(each_s) - 1)), *each_s)


def _time(work: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[float, Any]:
    """The seconds that a call takes, and what it gives."""
    began_s = time.perf_counter()
    result = work(*arguments, **named)
    return time.perf_counter() - began_s, result
