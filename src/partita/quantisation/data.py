"""What planners that choose widths know of a network's numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from partita.errors import InputError
from partita.files import make_folder, write_whole
from partita.graph import Graph
from partita.quantisation.bits import WIDTHS
from partita.quantisation.choose import USUAL, CodeOptions, choose_bits
from partita.quantisation.errors import (
    ErrorTable,
    coded_weights,
    measure_errors,
    scale_errors,
    tabulate_errors,
    tabulate_weights,
)
from partita.quantisation.file import Findings, dump_findings, load_findings
from partita.quantisation.held_out import digest_samples
from partita.quantisation.outputs import OutputLoss, Reference
from partita.quantisation.ranges import Advance, Ranges, collect_ranges
from partita.quantisation.samples import Sample
from partita.quantisation.weights import WeightRanges
from partita.regions import LayerBits
from partita.version import VERSION

#: What an error is, so that errors of layers may be added, and what sums of it are in words.
Loss = Literal["mse"] | OutputLoss
LOSSES: dict[str, str] = {
    "mse": "squared errors of tensors",
    "noise": "noise over signal at the outputs, one layer rounded alone",
    "output-mse": "squared errors of the outputs, one layer rounded alone",
    "kl": "divergence of the outputs, one layer rounded alone",
}
#: Widths at which one layer alone is quantised and outputs are measured, and on how many samples.
_MEASURED, MEASURED_ON = (8,), 8


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

    def findings(self, widths: Sequence[int] = WIDTHS) -> Findings:
        """What can be kept of it: errors, and ends of ranges at these widths."""
        ranges, options = self.ranges, self.options
        limits = ranges.all_limits(widths, (options.clipping, options.norm, options.exact_sums))
        return Findings({}, self.errors, limits, ranges.samples, ranges.pixels, ranges.means)

    @classmethod
    def of_findings(cls, kept: Findings, options: CodeOptions = USUAL) -> QuantisationData | None:
        """What was kept with the same options; None where there are no errors."""
        if kept.errors is None:
            return None
        known = kept.limits, kept.samples, kept.pixels, kept.means
        how = options.clipping, options.norm, options.exact_sums
        return cls(kept.errors, Ranges.of_limits(*known, how=how), options)

    def at_outputs(
        self, reference: Reference, measure: OutputLoss, advance: Advance | None = None
    ) -> QuantisationData:
        """The same with errors that say what of a network's outputs each layer alone changes.

        The outputs are measured at one width, the widest; see :func:`scale_errors`.

        Args:
            reference: The network, and a few of the samples: it runs over these twice a layer.
        """
        alone = measure_errors(
            reference, self.ranges, measure, _MEASURED, self.options, advance=advance
        )
        return replace(self, errors=scale_errors(self.errors, alone))


def find_data(
    graph: Graph,
    samples: Sequence[Sample],
    folder: Path,
    advance: Advance | None = None,
    options: CodeOptions = USUAL,
    *,
    measure: Loss = "mse",
) -> QuantisationData:
    """What samples say of a network: kept in a folder, else found now.

    Errors of weights are kept apart, as they are the same for all samples.

    Args:
        graph: Not quantised.
        folder: Made where it is missing; a file in it is of one network, samples and options.
        measure: What errors are.

    Raises:
        OSError: The folder cannot be written to.
        InputError: A tensor is not finite for a sample.
    """
    key = (VERSION, graph.hash, digest_samples(samples), options)
    data = _find_own(graph, samples, _path(folder, key), advance, options)
    if measure == "mse":
        return data
    path = _path(folder, (*key, measure, _MEASURED, MEASURED_ON))
    kept = _read(path)
    if kept is not None and kept.errors is not None:
        return replace(data, errors=kept.errors)
    make_folder(folder)
    reference = Reference(graph, [sample.feeds for sample in samples[:MEASURED_ON]])
    data = data.at_outputs(reference, measure, advance)
    write_whole(path, dump_findings(Findings({}, data.errors)))
    return data


def _find_own(
    graph: Graph,
    samples: Sequence[Sample],
    path: Path,
    advance: Advance | None,
    options: CodeOptions,
) -> QuantisationData:
    """Ranges, and errors of the tensors themselves: kept in a file, else found now."""
    kept = _read(path)
    of_weights = _path(path.parent, (VERSION, graph.hash, "weights", options))
    data = None if kept is None else QuantisationData.of_findings(kept, options)
    if data is not None:
        _read_weights(graph, of_weights, options)
        return data
    make_folder(path.parent)
    ranges = collect_ranges(graph, [sample.feeds for sample in samples], advance)
    weights = _find_weights(graph, of_weights, advance, options)
    errors = tabulate_errors(graph, ranges, WIDTHS, options, weights=weights)
    data = QuantisationData(errors, ranges, options)
    write_whole(path, dump_findings(data.findings()))
    return data


def _find_weights(
    graph: Graph, path: Path, advance: Advance | None, options: CodeOptions
) -> dict[str, dict[int, float]]:
    """What weights lose: kept in a file, else found now."""
    known = _read_weights(graph, path, options)
    if known:
        return known
    found = tabulate_weights(graph, WIDTHS, options, advance)
    ends = graph.remember(WeightRanges).list_ends(coded_weights(options))
    write_whole(path, dump_findings(Findings({}, ErrorTable(found, {}), ends=ends)))
    return found


def _read_weights(graph: Graph, path: Path, options: CodeOptions) -> dict[str, dict[int, float]]:
    """What weights lose, if it was kept; their ranges are known from then on, too."""
    kept = _read(path)
    if kept is None or kept.errors is None:
        return {}
    graph.remember(WeightRanges).know(kept.ends, coded_weights(options))
    return kept.errors.weights


def _path(folder: Path, key: tuple[object, ...]) -> Path:
    return folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.json"


def _read(path: Path) -> Findings | None:
    """What was kept; None where there is nothing that can be read."""
    try:
        return load_findings(path)
    except InputError:
        return None
