"""What planners that choose widths know of a network's numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from partita.errors import InputError
from partita.files import make_folder, write_whole
from partita.graph import Graph
from partita.quantisation.bits import WIDTHS
from partita.quantisation.choose import USUAL, CodeOptions, choose_bits
from partita.quantisation.errors import ErrorTable, tabulate_errors
from partita.quantisation.file import Findings, dump_findings, load_findings
from partita.quantisation.held_out import digest_samples
from partita.quantisation.ranges import Advance, Ranges, collect_ranges
from partita.quantisation.samples import Sample
from partita.regions import LayerBits
from partita.version import VERSION


@dataclass(frozen=True)
class QuantisationData:
    """What samples say, found once for a network.

    Attributes:
        errors: What each layer loses by each width.
        ranges: What its tensors are.
        options: How numbers become codes, as for the errors.
    """

    errors: ErrorTable
    ranges: Ranges
    options: CodeOptions = USUAL

    def error_of(self, graph: Graph, bits: Mapping[str, LayerBits]) -> float:
        """The sum of what layers lose by a table of bits; rounding inputs does not count."""
        layers = {layer.name for layer in graph.layers}
        return sum(
            table[name][width]
            for name, entry in bits.items()
            for table, width in (
                (self.errors.weights, entry.weight),
                (self.errors.activations, entry.activation),
            )
            if width is not None and name in layers
        )

    def bits(
        self, graph: Graph, weights: Mapping[str, int], activations: Mapping[str, int]
    ) -> dict[str, LayerBits]:
        """The table of bits that gives layers these widths; see :func:`choose_bits`."""
        return choose_bits(graph, self.ranges, weights, activations, self.options)


def find_data(
    graph: Graph,
    samples: Sequence[Sample],
    folder: Path,
    advance: Advance | None = None,
    options: CodeOptions = USUAL,
) -> QuantisationData:
    """What samples say of a network: kept in a folder, else found now.

    Args:
        graph: Not quantised.
        folder: Made where it is missing; a file in it is of one network, samples and options.

    Raises:
        OSError: The folder cannot be written to.
        InputError: A tensor is not finite for a sample.
    """
    key = repr((VERSION, graph.hash, digest_samples(samples), options))
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
    data = _read(path, options)
    if data is None:
        make_folder(folder)
        ranges = collect_ranges(graph, [sample.feeds for sample in samples], advance)
        data = QuantisationData(
            tabulate_errors(graph, ranges, WIDTHS, options, advance), ranges, options
        )
        limits = ranges.all_limits(WIDTHS, options.clipping, options.norm)
        found = Findings({}, data.errors, limits, ranges.samples, ranges.pixels)
        write_whole(path, dump_findings(found))
    return data


def _read(path: Path, options: CodeOptions) -> QuantisationData | None:
    """What was kept; None where there is nothing that can be read."""
    try:
        kept = load_findings(path)
    except InputError:
        return None
    if kept.errors is None:
        return None
    ranges = Ranges.of_limits(
        kept.limits, kept.samples, kept.pixels, options.clipping, options.norm
    )
    return QuantisationData(kept.errors, ranges, options)
