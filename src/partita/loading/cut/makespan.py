"""How long children take until the last one has answered, by a model of loads that share."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from partita.errors import BundleError
from partita.loading.cut.blocks import BlockProfile


@dataclass(frozen=True)
class ChildTimes:
    """When one child does what, in seconds after loading began."""

    load_start_s: float
    load_end_s: float
    compute_start_s: float
    compute_end_s: float


@dataclass(frozen=True)
class LoadTimes:
    """When all children do what.

    Attributes:
        makespan_s: When the last one has answered.
        speedup_bound: Time to load all after each other, over that of the largest: loading at the
            same time gains no more than this.
    """

    children: tuple[ChildTimes, ...]
    makespan_s: float
    speedup_bound: float


@dataclass(frozen=True)
class Problem:
    """What a division is chosen by: seconds per block under fixed conditions.

    Attributes:
        loads: What each block adds to loading its child, in s.
        computes: What each block adds to its child's first run, in s.
        child_load_s: What each child takes to load beyond its blocks.
        child_run_s: What each child takes to run beyond its blocks.
        contention: How many times longer a load takes while another one runs.
        last_start: The last block with which the last child may begin; the last of all when -1.
        arrivals: When each block's weights are there, in s, where they are read ahead of the runs;
            empty where loading includes reading.
        apart: Whether the last child begins just there: it has the trainable layers and what
            follows, so that training holds no more than it needs.
    """

    loads: tuple[float, ...]
    computes: tuple[float, ...]
    child_load_s: float = 0.0
    child_run_s: float = 0.0
    contention: float = 1.0
    loaders: int = 1
    last_start: int = -1
    arrivals: tuple[float, ...] = ()
    apart: bool = False

    @classmethod
    def of(
        cls,
        profile: BlockProfile,
        *,
        loaders: int,
        cold: bool = False,
        prepack: bool = False,
        mapped: bool = True,
    ) -> Problem:
        """The problem that a profile poses.

        Args:
            cold: Whether weights are read from disk; else they are in the page cache.
            mapped: Whether weights are mapped, and read ahead in the order of use while children
                load and compute, as bundles do; else a child is loaded when all are in memory.

        Raises:
            BundleError: There is no loader.
        """
        if loaders < 1:
            raise BundleError(f"{loaders} loaders: allowed are 1 or more.")
        blocks = profile.blocks
        reads_s = accumulate(block.read_cold_s for block in blocks)
        return cls(
            tuple(block.load_s(cold=cold, prepack=prepack, mapped=mapped) for block in blocks),
            tuple(block.compute_s(mapped=mapped) for block in blocks),
            profile.child_load_s,
            profile.child_run_s,
            profile.cold_contention if cold and not mapped else profile.contention,
            loaders,
            profile.last_start,
            tuple(reads_s) if cold and mapped else (),
            profile.first_trainable > 0,
        )

    @property
    def size(self) -> int:
        """Number of blocks."""
        return len(self.loads)

    @property
    def last_cut(self) -> int:
        """The last block with which the last child may begin."""
        return self.last_start if self.last_start >= 0 else self.size - 1

    @property
    def least_children(self) -> int:
        """Children that there are at least."""
        return 2 if self.apart else 1

    @property
    def most_children(self) -> int:
        """Children that the model can be divided into."""
        return self.last_cut + 1

    @cached_property
    def load_sums(self) -> tuple[float, ...]:
        """Seconds to load all blocks before each place."""
        return tuple(accumulate(self.loads, initial=0.0))

    @cached_property
    def compute_sums(self) -> tuple[float, ...]:
        """Seconds to run all blocks before each place."""
        return tuple(accumulate(self.computes, initial=0.0))

    def load_s(self, start: int, stop: int) -> float:
        """The seconds that a child of these blocks takes to load when it loads alone."""
        return self.child_load_s + self.load_sums[stop] - self.load_sums[start]

    def compute_s(self, start: int, stop: int) -> float:
        """The seconds of a child's first run."""
        return self.child_run_s + self.compute_sums[stop] - self.compute_sums[start]

    @cached_property
    def floors(self) -> tuple[tuple[float, ...], ...]:
        """Seconds before which a child cannot have answered, by its first block and its end.

        A block runs once its weights are there, and what comes after it in the child later.
        """
        size = self.size
        rows = [[0.0] * (size + 1) for _ in range(size + 1)]
        for start in reversed(range(size if self.arrivals else 0)):
            for stop in range(start + 1, size + 1):
                own_s = self.arrivals[start] + self.compute_sums[stop] - self.compute_sums[start]
                rows[start][stop] = max(own_s, rows[start + 1][stop])
        return tuple(map(tuple, rows))

    def latest_end(self, child: int, count: int) -> int:
        """The last block number before which child ``child`` of ``count`` may end."""
        return self.size if child == count - 1 else self.last_cut - (count - 2 - child)

    def is_fixed(self, child: int, count: int) -> bool:
        """Whether child ``child`` of ``count`` can only end where :meth:`latest_end` says."""
        return child == count - 1 or (self.apart and child == count - 2)

    def check_count(self, count: int, least: int | None = None) -> None:
        """Raise where the model cannot be divided into that many children.

        Raises:
            BundleError: It has fewer blocks, or too few before the trainable ones.
        """
        least = self.least_children if least is None else least
        if not least <= count <= self.most_children:
            raise BundleError(
                f"{count} children: the model has {self.size} blocks, the last child begins with"
                f" block {self.last_cut + 1} at the latest; allowed: {least} to"
                f" {self.most_children}."
            )

    def check_ends(self, ends: Sequence[int]) -> None:
        """Raise where ends are no division into children.

        Raises:
            BundleError: Blocks are left out or doubled, or the last child lacks trainable ones.
        """
        self.check_count(len(ends), 1)
        if ends[-1] != self.size or any(a >= b for a, b in pairwise((0, *ends))):
            raise BundleError(
                f"Children end before blocks {', '.join(map(str, ends))}: allowed are increasing"
                f" numbers from 1 to {self.size}, the last of them {self.size}."
            )
        if len(ends) > 1 and ends[-2] > self.last_cut:
            raise BundleError(
                f"The last child begins with block {ends[-2] + 1}: it must hold all trainable"
                f" blocks; allowed: 1 to {self.last_cut + 1}."
            )

    def simulate(
        self, ends: Sequence[int], load_s: Callable[[int, int], float] | None = None
    ) -> LoadTimes:
        """When each child loads and computes; ``load_s`` in place of the blocks' own loads.

        Raises:
            BundleError: The ends are no division of the blocks.
        """
        self.check_ends(ends)
        pairs = list(pairwise((0, *ends)))
        return simulate_children(
            [(load_s or self.load_s)(start, stop) for start, stop in pairs],
            [self.compute_s(start, stop) for start, stop in pairs],
            loaders=self.loaders,
            contention=self.contention,
            floors=[self.floors[start][stop] for start, stop in pairs],
        )


def simulate_loading(
    profile: BlockProfile,
    ends: Sequence[int],
    *,
    loaders: int,
    cold: bool = False,
    prepack: bool = False,
    mapped: bool = True,
) -> LoadTimes:
    """When each child loads and computes; conditions as for :meth:`Problem.of`.

    Args:
        ends: Numbers of blocks before which children end; the last one is all blocks.

    Raises:
        BundleError: The ends are no division of the blocks, or there is no loader.
    """
    problem = Problem.of(profile, loaders=loaders, cold=cold, prepack=prepack, mapped=mapped)
    return problem.simulate(ends)


def simulate_children(
    loads: Sequence[float],
    computes: Sequence[float],
    *,
    loaders: int,
    contention: float,
    floors: Sequence[float] = (),
) -> LoadTimes:
    """When children load and compute whose times alone are known.

    A loader takes the next child as soon as it is free; with as many loaders as children all begin
    at once. A child computes when it is loaded and the one before has answered. While ``n``
    children load, each takes ``1 + (contention - 1) * (n - 1)`` times as long.

    All loads are slowed alike, so their order is that without contention: ``u`` being the time on
    that clock, and ``W(u)`` the loading done until then, the true time is
    ``(2 - contention) * u + (contention - 1) * W(u)``.

    Args:
        loads: Seconds to load each child alone.
        computes: Seconds that each child runs.
        contention: At least 1.
        floors: Seconds before which each child cannot have answered, since its weights come late.

    >>> simulate_children([2.0, 3.0], [1.0, 1.0], loaders=2, contention=1.0).makespan_s
    4.0
    >>> simulate_children([2.0, 3.0], [1.0, 1.0], loaders=1, contention=1.0).makespan_s
    6.0
    """
    free = [0.0] * min(loaders, len(loads))
    starts = []
    for load in loads:
        starts.append(heapq.heappop(free))
        heapq.heappush(free, starts[-1] + load)

    def at(clock: float) -> float:
        done = sum(
            min(max(clock - start, 0.0), load) for start, load in zip(starts, loads, strict=True)
        )
        return (2 - contention) * clock + (contention - 1) * done

    children: list[ChildTimes] = []
    answered = 0.0
    for child, (start, load, compute) in enumerate(zip(starts, loads, computes, strict=True)):
        loaded = at(start + load)
        begun = max(loaded, answered)
        answered = max(begun + compute, floors[child] if floors else 0.0)
        children.append(ChildTimes(at(start), loaded, begun, answered))
    largest = max(loads)
    bound = sum(loads) / largest if largest > 0 else float(len(loads))
    return LoadTimes(tuple(children), answered, bound)
