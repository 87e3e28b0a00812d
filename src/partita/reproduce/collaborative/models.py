"""Figures 4, 5, 7, 8 and 9: the models, by their parameters."""

from __future__ import annotations

from partita.reproduce.bench import Bench
from partita.reproduce.collaborative.setting import PAPER
from partita.reproduce.figure import Chart, Claim, Drawn, Table, figure
from partita.zoo import ZOO

#: Millions of parameters that section 3.1 names.
_MILLIONS = {"alexnet": 40, "vgg16": 140, "resnet50": 25, "xception": 23, "c3d": 80}
#: What the paper's rounding explains.
_ROUNDING = 0.03


@figure(PAPER, 4, "Parameters of the models of Figures 4 to 9")
def make_models(_: Bench) -> Drawn:
    """The counts of section 3.1 beside those of the zoo."""
    rows = tuple(
        (name, f"{millions} M", ZOO[name].parameters, 1e-9 * ZOO[name].macs)
        for name, millions in _MILLIONS.items()
    )
    claims = tuple(
        Claim(
            name,
            f"a total of {millions}M parameters",
            f"{ZOO[name].parameters:,}",
            abs(ZOO[name].parameters / (1e6 * millions) - 1) < _ROUNDING,
            "count",
        )
        for name, millions in _MILLIONS.items()
    )
    table = Table(
        "Models", ("model", "paper", "parameters", "GMAC"), rows, text_columns=2, digits=9
    )
    chart = Chart(
        "Parameters of the models",
        "bars",
        tuple(_MILLIONS),
        {
            "paper": tuple(float(count) for count in _MILLIONS.values()),
            "exact": tuple(1e-6 * ZOO[name].parameters for name in _MILLIONS),
        },
        "model",
        "millions of parameters",
    )
    notes = (
        "AlexNet's single stream, which the paper draws, has 62.4 M parameters, the original with"
        " two streams 61.0 M: 40 M is neither",
        "the paper swaps two words: of a separable convolution the depthwise step works over space,"
        " the pointwise one across channels",
    )
    return Drawn((table,), claims, (chart,), notes)
