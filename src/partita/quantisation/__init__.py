"""Quantising: with how many bits layers compute, and what that costs in accuracy."""

from typing import TYPE_CHECKING

from partita.lazy import on_first_use
from partita.regions import LayerBits, Packing

if TYPE_CHECKING:  # reading inputs from files needs neither ONNX nor SciPy
    from partita.quantisation.bits import WIDTHS, check_bits, list_quantisable
    from partita.quantisation.choose import CodeOptions, choose_bits
    from partita.quantisation.data import QuantisationData, find_data
    from partita.quantisation.errors import ErrorTable, measure_errors, tabulate_errors
    from partita.quantisation.held_out import count_classes, divide_samples, read_data
    from partita.quantisation.lapq import search_lapq
    from partita.quantisation.outputs import Reference
    from partita.quantisation.payloads import measure_shares
    from partita.quantisation.qdq import to_qdq_model
    from partita.quantisation.quantizer import quantize
    from partita.quantisation.ranges import Ranges, collect_ranges
    from partita.quantisation.samples import Sample, read_samples

__all__ = [
    "WIDTHS",
    "CodeOptions",
    "ErrorTable",
    "LayerBits",
    "Packing",
    "QuantisationData",
    "Ranges",
    "Reference",
    "Sample",
    "check_bits",
    "choose_bits",
    "collect_ranges",
    "count_classes",
    "divide_samples",
    "find_data",
    "list_quantisable",
    "measure_errors",
    "measure_shares",
    "quantize",
    "read_data",
    "read_samples",
    "search_lapq",
    "tabulate_errors",
    "to_qdq_model",
]

__getattr__ = on_first_use(
    __name__,
    {
        "bits": "WIDTHS check_bits list_quantisable",
        "choose": "CodeOptions choose_bits",
        "data": "QuantisationData find_data",
        "errors": "ErrorTable measure_errors tabulate_errors",
        "held_out": "count_classes divide_samples read_data",
        "lapq": "search_lapq",
        "outputs": "Reference",
        "payloads": "measure_shares",
        "qdq": "to_qdq_model",
        "quantizer": "quantize",
        "ranges": "Ranges collect_ranges",
        "samples": "Sample read_samples",
    },
)
