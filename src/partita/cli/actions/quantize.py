"""Error tables of a model's layers, and the model with fewer bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from rich.console import RenderableType

from partita.cli.output import Reply, cache_folder, check_output, progress_bar, write_output
from partita.cli.sources import read_graph
from partita.errors import InputError
from partita.graph import Graph
from partita.graph.quantised import is_packed, stored_bytes
from partita.quantisation import (
    WIDTHS,
    CodeOptions,
    ErrorTable,
    LayerBits,
    QuantisationData,
    Reference,
    Sample,
    choose_bits,
    collect_ranges,
    find_data,
    measure_errors,
    quantize,
    search_lapq,
    tabulate_errors,
)
from partita.quantisation.bits import check_quantisable, check_widths, explain_left, list_left
from partita.quantisation.choose import Widths
from partita.quantisation.data import MEASURED_ON
from partita.quantisation.file import Findings, dump_findings
from partita.quantisation.outputs import OutputMeasure
from partita.quantisation.qdq import check_file_widths, to_qdq_model
from partita.quantisation.ranges import Advance
from partita.quantisation.robust import robust_widths
from partita.quantisation.samples import read_files
from partita.regions import Clipping
from partita.report import draw_table
from partita.report.tables import TableData
from partita.units import format_bytes

_LAPQ = "lapq"


@dataclass(frozen=True)
class QuantizeFlags:
    """How a model is quantised, and where that is written.

    Attributes:
        weights: Bits of weights; 0 leaves them as they are.
        activations: Bits of activations; 0 leaves them as they are.
        clip: How ranges are found.
        evaluations: Tables of bits that ``lapq`` tries.
        measure: What an error is.
        keep_float_db: Signal to noise of the outputs that a layer alone must leave to be quantised;
            None quantises all.
        errors: File for the error table; None writes none.
        output: ONNX file; None writes none.
    """

    weights: int
    activations: int
    per_channel: bool
    affine: bool
    exact_sums: bool
    clip: str
    evaluations: int
    measure: str
    keep_float_db: float | None
    errors: Path | None
    output: Path | None


def quantize_model(
    path: Path, shapes: Sequence[str] | None, samples: Sequence[str], asked: QuantizeFlags
) -> Reply:
    """Tabulate what layers lose, quantise the model, and measure that on the samples.

    Raises:
        InputError: A sample or a flag cannot be used.
        ModelError: The file cannot be read, or there is no ONNX type for a width.
        PlanError: A width is none that there is.
    """
    measures = ("mse", *get_args(OutputMeasure))
    options = _read_flags(path, asked, measures)
    graph = read_graph(path, shapes)
    check_quantisable(graph)
    read = read_files(graph.input_specs, samples, finite=True)
    feeds = [sample.feeds for sample in read]
    with progress_bar("quantising") as advance:
        reference = Reference(graph, feeds)
        known = _tabulate(reference, read, options, asked, advance)
        bits = _choose(reference, known, asked, advance)
        snr_db, by_output = reference.compare_signals(bits)
    quantised, table = quantize(graph, bits), known.errors
    payload: dict[str, Any] = {
        "model": graph.name,
        "samples": len(feeds),
        "measure": table.measure,
        "layers": [_describe(name, table, bits) for name in _list_names(graph, table)],
        "kept_float": _list_kept(graph, known, bits, asked),
        "left": [{"name": name, "weights": kind} for name, kind in list_left(graph).items()],
        "signal_to_noise_db": snr_db,
        "outputs": [{"name": name, "signal_to_noise_db": db} for name, db in by_output.items()],
        "weight_bytes": graph.weight_bytes,
        "stored_bytes": stored_bytes(quantised),
    }
    model = None if asked.output is None else to_qdq_model(quantised).SerializeToString()
    if asked.errors is not None:
        write_output(asked.errors, dump_findings(Findings(bits, table)))
    if asked.output is not None and model is not None:
        write_output(asked.output, model)
    return Reply(payload, _show(quantised, table, payload, asked))


def _read_flags(path: Path, asked: QuantizeFlags, measures: Sequence[str]) -> CodeOptions:
    """The options of codes; refuses flags before the work begins."""
    for flag, value, allowed in (
        ("--clip", asked.clip, (*get_args(Clipping), _LAPQ)),
        ("--measure", asked.measure, measures),
    ):
        if value not in allowed:
            raise InputError(f"{flag} is '{value}', allowed: {', '.join(allowed)}.", subject=flag)
    for flag, width in (("--weights", asked.weights), ("--activations", asked.activations)):
        check_widths([width] if width else [], flag)
        if asked.output is not None and width:
            check_file_widths(path.stem, [width])
    check_output(asked.errors, path)
    check_output(asked.output, path, beside=asked.errors)
    clipping: Any = "mse" if asked.clip == _LAPQ else asked.clip
    return CodeOptions(asked.per_channel, asked.affine, clipping, exact_sums=asked.exact_sums)


def _tabulate(
    reference: Reference,
    samples: Sequence[Sample],
    options: CodeOptions,
    asked: QuantizeFlags,
    advance: Advance,
) -> QuantisationData:
    """What samples say: kept for this and other commands, but for ranges that are sought."""
    graph, measure = reference.graph, asked.measure
    if measure == "mse" and asked.clip != _LAPQ:
        return find_data(graph, samples, cache_folder("tables"), advance, options)
    ranges = collect_ranges(graph, [sample.feeds for sample in samples], advance)
    if measure == "mse":
        table = tabulate_errors(graph, ranges, WIDTHS, options, advance)
    else:
        kind: Any = measure
        table = measure_errors(reference, ranges, kind, WIDTHS, options, advance=advance)
    return QuantisationData(table, ranges, options)


def _choose(
    reference: Reference, known: QuantisationData, asked: QuantizeFlags, advance: Advance
) -> dict[str, LayerBits]:
    widths: tuple[Widths, Widths] = asked.weights or None, asked.activations or None
    if asked.keep_float_db is not None:
        widths = robust_widths(
            Reference(reference.graph, reference.samples[:MEASURED_ON]),
            known.ranges,
            (asked.weights or None, asked.activations or None),
            asked.keep_float_db,
            known.options,
            advance=advance,
        )
    if asked.clip != _LAPQ:
        return choose_bits(reference.graph, known.ranges, *widths, known.options)
    return search_lapq(
        reference,
        known.ranges,
        *widths,
        known.options,
        evaluations=asked.evaluations,
        advance=advance,
    )


def _list_kept(
    graph: Graph, known: QuantisationData, bits: dict[str, LayerBits], asked: QuantizeFlags
) -> dict[str, list[str]]:
    """Names of layers whose weights, or activations, were asked to have bits and have none."""
    widths = asked.weights or None, asked.activations or None
    wanted = choose_bits(graph, known.ranges, *widths, known.options)
    pairs = [(name, entry, bits.get(name, LayerBits())) for name, entry in wanted.items()]
    return {
        "weights": [name for name, entry, got in pairs if entry.weight and not got.weight],
        "activations": [
            name for name, entry, got in pairs if entry.activation and not got.activation
        ],
    }


def _show(
    quantised: Graph, table: ErrorTable, payload: dict[str, Any], asked: QuantizeFlags
) -> list[RenderableType]:
    graph = quantised.base or quantised
    columns = ("layer", *(f"W{w}" for w in WIDTHS), *(f"A{w}" for w in WIDTHS))
    rows = tuple(
        (
            name,
            *(_number(table.weights.get(name, {}).get(width)) for width in WIDTHS),
            *(_number(table.activations.get(name, {}).get(width)) for width in WIDTHS),
        )
        for name in _list_names(graph, table)
    )
    title = f"Errors ({table.measure}) by bits of weights (W) and activations (A)"
    lines = [
        f"Samples:     {payload['samples']}",
        f"Bits:        weights {asked.weights or 'as they are'}, activations"
        f" {asked.activations or 'as they are'}",
        f"Outputs:     {payload['signal_to_noise_db']:.1f} dB signal-to-noise, on the"
        f" samples{_say_each(payload['outputs'])}",
        f"Weights:     {format_bytes(payload['stored_bytes'])} stored, as they were"
        f" {format_bytes(payload['weight_bytes'])}{_say_unpacked(quantised)}",
    ]
    lines += [
        f"Floats:      {what} of {', '.join(names)}"
        for what, names in payload["kept_float"].items()
        if names
    ]
    left = explain_left(graph)
    lines += [f"Left:        {left}"] if left else []
    lines += [f"Written to {path}" for path in (asked.errors, asked.output) if path is not None]
    return [draw_table(TableData(title, columns, rows, text_columns=1)), *lines]


def _say_each(outputs: Sequence[dict[str, Any]]) -> str:
    """What to add where there are several outputs: large numbers hide what others lose."""
    told = (f"{one['name']} {one['signal_to_noise_db']:.1f} dB" for one in outputs)
    return f"; {', '.join(told)}" if len(outputs) > 1 else ""


def _say_unpacked(quantised: Graph) -> str:
    """What to add where some weights are stored as floats all the same; else nothing."""
    codes = [name for name in quantised.packings if name in quantised.constants]
    floats = [name for name in codes if not is_packed(quantised, name)]
    if not floats:
        return ""
    size = sum(quantised.constants.spec(name).nbytes for name in floats)
    return f"; {format_bytes(size)} of it floats, in tensors too small to be packed"


def _list_names(graph: Graph, table: ErrorTable) -> list[str]:
    """Inputs and layers with errors, in the network's order."""
    names = (*graph.inputs, *(layer.name for layer in graph.layers))
    return [name for name in names if name in table.weights or name in table.activations]


def _describe(name: str, table: ErrorTable, bits: dict[str, LayerBits]) -> dict[str, Any]:
    entry = bits.get(name, LayerBits())
    errors = (table.weights.get(name, {}), table.activations.get(name, {}))
    return {
        "name": name,
        "weights": [{"bits": width, "error": error} for width, error in errors[0].items()],
        "activations": [{"bits": width, "error": error} for width, error in errors[1].items()],
        "weight_bits": entry.weight,
        "activation_bits": entry.activation,
        "low": entry.low,
        "high": entry.high,
    }


def _number(error: float | None) -> str:
    return "" if error is None else f"{error:.1e}"
