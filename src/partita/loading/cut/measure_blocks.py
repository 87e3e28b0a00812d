"""Measuring what the blocks of a model cost to load and to run on this machine."""

from __future__ import annotations

import mmap
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from partita.compile import Compiled
from partita.engine import make_inputs
from partita.engine.onnx_facts import read_facts
from partita.graph import Graph
from partita.loading.bundle.manifest import check_count, engine_name, processor_signature
from partita.loading.bundle.ort_session import open_child
from partita.loading.cut.blocks import Block, BlockProfile, choose_borders
from partita.loading.cut.page_cache import forget, settle
from partita.loading.write.child_models import PAGE_BYTES, cut_children, optimise, place_weights
from partita.loading.write.write_bundle import Progress

#: Times that anything is measured, at most.
MOST_REPEATS = 1000
#: Pairs of children that load at the same time to see how they hold each other up.
_PAIRS = 4


@dataclass(frozen=True)
class ChildFile:
    """Some layers on disk, as a child of its own."""

    graph: Path
    weights: Path
    size_bytes: int

    def open(self, threads: int, *, prepack: bool = False) -> Any:
        """Return the engine's session as a bundle in use makes it."""
        return open_child(self.graph, threads, prepack=prepack)

    def touch(self) -> float:
        """Return the seconds to map the weights and to read a byte of each page.

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


@dataclass
class _Times:
    """Seconds of one child, one per repetition."""

    create: list[float] = field(default_factory=list)
    prepack: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    infer: list[float] = field(default_factory=list)


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
    """Return the profile of the model's blocks on this machine; every time is a median.

    Each block is written as a child of its own and measured in this process, and so is the whole
    model as one child: what all children take beyond that is the fixed cost of one more. Weights
    lie in the folder for temporary files; where that is memory, cold is not slower than warm.

    Args:
        graph: The model.
        most_blocks: Blocks to divide it into; fewer where it has fewer layers.
        threads: Threads within one operator.
        repeats: Times that everything is measured, 1 to 1000.
        trainable: Names of layers that may be trained.
        tuned: Whether children are optimised for this machine's processor.
        device: What kind of device this machine is.
        progress: Called before each measurement, with the number done, of all, and a name.

    Raises:
        BundleError: There is to be no block, thread or repetition, or a trainable layer is unknown.
    """
    check_count("Threads", threads)
    check_count("Repeats", repeats, MOST_REPEATS)
    ends = choose_borders(graph, most_blocks, tuple(trainable))
    with tempfile.TemporaryDirectory(prefix="partita-blocks-") as made:
        home = Path(made)
        parts = write_parts(cut_children(graph, ends), home, "part", tuned=tuned, threads=threads)
        one = cut_children(graph, ends[-1:])
        whole = write_parts(one, home, "whole", tuned=tuned, threads=threads)
        settle(list(home.iterdir()))
        children = [*parts, *whole]
        names = [*(graph.layers[start].name for start in (0, *ends[:-1])), graph.name]
        times = [_Times() for _ in children]
        # In rounds over all: the pace of a shared machine wanders, and must not tell them apart.
        for number in range(repeats * len(children)):
            place = number % len(children)
            if progress is not None:
                progress(number, repeats * len(children), names[place])
            _measure(children[place], threads, times[place])
        crowds = _measure_crowds(parts, threads, repeats)
    return _conclude(graph, (ends, parts, times), crowds, (threads, tuned, set(trainable), device))


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
        compiled: Where they are.
        home: A folder.
        name: What the files' names begin with.
        tuned: For this machine's processor alone.
        threads: Threads that they will run on.
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


def _measure(child: ChildFile, threads: int, times: _Times) -> None:
    """Measure a child once."""
    inputs = read_facts(child.graph.read_bytes()).inputs
    feeds = {spec.name: array for spec, array in zip(inputs, make_inputs(inputs), strict=True)}
    child.touch()
    create_s, session = _time(child.open, threads)
    times.create.append(create_s)
    times.first.append(_time(session.run, None, feeds)[0])
    times.infer.append(_time(session.run, None, feeds)[0])
    del session
    times.prepack.append(_time(child.open, threads, prepack=True)[0] - create_s)
    times.warm.append(child.touch())
    child.forget()
    times.cold.append(child.touch())


def _measure_crowds(
    children: Sequence[ChildFile], threads: int, repeats: int
) -> tuple[float, float]:
    """Return how many times longer a load takes while another runs: created, and read, too."""
    largest = sorted(children, key=lambda child: child.size_bytes)[-2 * _PAIRS :]
    pairs = list(zip(largest[::2], largest[1::2], strict=False))

    def read(child: ChildFile) -> None:
        child.open(threads)
        child.touch()

    def create(child: ChildFile) -> None:
        child.open(threads)

    found = []
    for load, is_cold in ((create, False), (read, True)):
        factors = [_crowd(pair, load, is_cold) for pair in pairs for _ in range(repeats)]
        found.append(max(1.0, statistics.median(factors or [1.0])))
    return found[0], found[1]


def _crowd(
    pair: tuple[ChildFile, ChildFile], load: Callable[[ChildFile], None], is_cold: bool
) -> float:
    """Return 1 and the share by which the longer of two loads is held up by the shorter."""

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


def _conclude(
    graph: Graph,
    measured: tuple[list[int], list[ChildFile], list[_Times]],
    crowds: tuple[float, float],
    how: tuple[int, bool, set[str], str],
) -> BlockProfile:
    """Return the profile: what each child takes beyond its block is taken out of the block."""
    ends, parts, (*times, whole) = measured
    threads, tuned, trainable, device = how
    create = [statistics.median(one.create) for one in times]
    infer = [statistics.median(one.infer) for one in times]
    child_load_s = _fixed(create, statistics.median(whole.create))
    child_run_s = _fixed(infer, statistics.median(whole.infer))
    cold = [statistics.median(one.cold) for one in times]
    blocks = []
    for place, (start, stop) in enumerate(pairwise((0, *ends))):
        one = times[place]
        blocks.append(
            Block(
                name=graph.layers[start].name,
                first=start,
                stop=stop,
                weight_bytes=parts[place].size_bytes,
                create_s=create[place] - child_load_s,
                prepack_s=max(0.0, statistics.median(one.prepack)),
                read_warm_s=statistics.median(one.warm),
                read_cold_s=cold[place],
                infer_s=infer[place] - child_run_s,
                first_s=max(0.0, statistics.median(one.first) - child_run_s),
                trainable=any(layer.name in trainable for layer in graph.layers[start:stop]),
            )
        )
    read_bytes = sum(child.size_bytes for child in parts)
    return BlockProfile(
        model=graph.name,
        model_hash=graph.hash,
        engine=engine_name(),
        threads=threads,
        tuned=tuned,
        blocks=tuple(blocks),
        child_load_s=child_load_s,
        child_run_s=child_run_s,
        contention=crowds[0],
        cold_contention=crowds[1],
        read_bytes_per_s=read_bytes / max(sum(cold), 1e-9),
        device=device,
        processor=processor_signature(),
    )


def _fixed(each_s: Sequence[float], whole_s: float) -> float:
    """Return what a child takes beyond its part of the whole; no more than the least child."""
    if len(each_s) < 2:
        return 0.0
    return min(max(0.0, (sum(each_s) - whole_s) / (len(each_s) - 1)), *each_s)


def _time(work: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[float, Any]:
    """Return the seconds that a call takes, and what it gives."""
    began_s = time.perf_counter()
    found = work(*arguments, **named)
    return time.perf_counter() - began_s, found
