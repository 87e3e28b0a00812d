"""Really loading children on this machine, where the simulation is not taken on trust."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from partita.engine import make_feeds
from partita.errors import BundleError
from partita.graph import Graph
from partita.loading.bundle.manifest import check_count
from partita.loading.cut.blocks import BlockProfile
from partita.loading.cut.branch_and_bound import Ends
from partita.loading.cut.measure_blocks import MOST_REPEATS, ChildFile, write_parts
from partita.loading.cut.page_cache import forget, read_once_s, settle
from partita.loading.serve.session import load_bundle
from partita.loading.write.child_models import cut_children
from partita.loading.write.write_bundle import Division, Progress, write_bundle


class TrialLoads:
    """Children of one model, written to a folder of its own and loaded; a context manager.

    Args:
        profile: Its blocks; threads and optimisation are the profile's.
        cold: Whether weights are dropped from the page cache before; else they are in it.
        repeats: Times that everything is tried.
        progress: Called before each trial, with the number done, of those known, and a name.

    Raises:
        BundleError: The profile is of another model, or there is no loader or repetition.
    """

    def __init__(
        self,
        graph: Graph,
        profile: BlockProfile,
        *,
        loaders: int,
        cold: bool = False,
        repeats: int = 5,
        progress: Progress | None = None,
    ) -> None:
        check_count("Loaders", loaders)
        check_count("Repeats", repeats, MOST_REPEATS)
        if profile.model_hash != graph.hash:
            raise BundleError(
                f"The profile of blocks is of model {profile.model_hash[:12]}, to be tried is"
                f" {graph.hash[:12]}. Measure its blocks."
            )
        self._is_open = False
        self._graph = graph
        self._profile = profile
        self._loaders = loaders
        self._cold = cold
        self._repeats = repeats
        self._progress = progress
        self._count = 0
        self._folder = tempfile.TemporaryDirectory(prefix="partita-trial-loads-")

    def __enter__(self) -> Self:
        self._is_open = True
        return self

    def check(self, profile: BlockProfile, loaders: int, *, cold: bool) -> None:
        """Raise where it is not open, or tries something else than what is asked for.

        Raises:
            BundleError: It is so.
        """
        if not self._is_open:
            raise BundleError("Trial loads are of use in a 'with' statement alone.")
        for what, ours, wanted in (
            ("profile", self._profile, profile),
            ("loaders", self._loaders, loaders),
            ("cold", self._cold, cold),
        ):
            if ours != wanted:
                told = "another one" if what == "profile" else f"{ours}, asked for is {wanted}"
                raise BundleError(f"The trial loads' {what} is {told}: both must be the same.")

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        self._folder.cleanup()

    def load_s(self, start: int, stop: int) -> float:
        """The median seconds to load a child of blocks ``start`` to ``stop``.

        That is creating its session, with the weights mapped as in bundles.
        """
        self._tell(f"child of blocks {start} to {stop - 1}")
        part = self._write_child(start, stop)
        times = []
        for _ in range(self._repeats):
            part.forget() if self._cold else part.touch()
            began_s = time.perf_counter()
            session = part.open(self._profile.threads)
            times.append(time.perf_counter() - began_s)
            del session
        part.graph.unlink()
        part.weights.unlink()
        return statistics.median(times)

    def answer_s(self, divisions: Sequence[Ends], *, prepack: bool = False) -> list[float]:
        """The median seconds from opening a bundle to its first answer, for each division.

        The bundles take turns, so that all see the same machine.

        Args:
            divisions: Numbers of blocks before which children end.
        """
        homes = []
        for number, ends in enumerate(divisions):
            home = Path(self._folder.name, f"bundle-{number}{'-prepacked' * prepack}")
            self._tell(f"bundle of {len(ends)} children")
            self._write_bundle(ends, home, prepack=prepack)
            homes.append(home)
        files = [[path for path in home.rglob("*") if path.is_file()] for home in homes]
        settle([path for group in files for path in group])
        feeds = make_feeds(self._graph.input_specs)
        times: list[list[float]] = [[] for _ in homes]
        for turn in range(self._repeats * len(homes)):
            place = turn % len(homes)
            self._tell(f"answer of {len(divisions[place])} children")
            forget(files[place]) if self._cold else read_once_s(files[place])
            began_s = time.perf_counter()
            with load_bundle(homes[place], verify=False) as session:
                session.run(None, feeds)
                times[place].append(time.perf_counter() - began_s)
        return [statistics.median(seconds) for seconds in times]

    def _write_bundle(self, ends: Ends, home: Path, *, prepack: bool) -> None:
        profile = self._profile
        division = Division(
            "try",
            profile.layer_ends(ends),
            tuned=profile.tuned,
            threads=profile.threads,
            loaders=self._loaders,
            prepack=prepack,
        )
        write_bundle(self._graph, [division], home)

    def _write_child(self, start: int, stop: int) -> ChildFile:
        blocks, total = self._profile.blocks, len(self._graph.layers)
        before, after = blocks[start].first, blocks[stop - 1].stop
        ends = [end for end in (before, after) if 0 < end < total]
        compiled = cut_children(self._graph, [*ends, total])
        (part,) = write_parts(
            compiled,
            Path(self._folder.name),
            f"child-{start}-{stop}",
            tuned=self._profile.tuned,
            threads=self._profile.threads,
            only=1 if before else 0,
        )
        settle([part.graph, part.weights])
        return part

    def _tell(self, what: str) -> None:
        if self._progress is not None:
            self._progress(self._count, self._count + 1, what)
        self._count += 1
