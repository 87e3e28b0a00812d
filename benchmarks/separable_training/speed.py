"""Training steps of the separable and the plain network, timed in turns on one thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from benchmarks.harness import Row, say, shown, take_turns
from benchmarks.separable_training.networks import GROUPS, STALENESS
from partita.errors import first_line
from partita.separable.architecture import Architecture
from partita.separable.module import SeparableNet
from partita.separable.policy import Policy, rotating, silent
from partita.separable.training import keep_freed_memory

_TARGET = 0.5


@dataclass(frozen=True)
class Way:
    """A way to compute the same step. By default, what training does.

    Attributes:
        layout: Of features and weights.
        mixed: Whether in 16-bit floats where these suffice.
        compiles: Whether normalisations are fused with what is around them.
    """

    layout: torch.memory_format = torch.channels_last
    mixed: bool = False
    compiles: bool = False


_WAYS = {
    "": Way(),
    "channels first": Way(layout=torch.contiguous_format),
    "compiled": Way(compiles=True),
    "mixed": Way(mixed=True),
    "mixed and compiled": Way(mixed=True, compiles=True),
}
#: Kinds of operation by what the profiler's names begin with, the first that fits.
_KINDS = {
    "convolutions": ("aten::mkldnn_convolution", "aten::convolution", "aten::_slow_conv",
                     "aten::thnn_conv"),
    "normalisation": ("aten::native_batch_norm", "aten::batch_norm"),
    "optimiser": ("Optimizer", "aten::_foreach"),
    "ReLU, sums, copies": ("aten::",),
}  # fmt: skip


def measure_speed(name: str, batch: int, rounds: int) -> list[Row]:
    """Images per second of both networks in every way, and their steps in parts."""
    torch.set_num_threads(1)
    keep_freed_memory()
    rows: list[Row] = []
    best: dict[str, float] = {}
    for words, way in _WAYS.items():
        steps = {form: _make_step(name, batch, form, way) for form in ("plain", "separable")}
        say(f"{name}, {words or 'as it is'}")
        try:
            times = take_turns(steps, rounds=rounds)
        except Exception as error:  # a compiler may be missing, or refuse: said, not hidden
            say(f"{words}: {first_line(error)}")
            continue
        rates = {form: batch / seconds for form, seconds in times.items()}
        best = {form: max(rate, best.get(form, 0.0)) for form, rate in rates.items()}
        case = f"{name}, batch {batch}{', ' + words if words else ''}: separable; peer: plain"
        rows.append(_row(case, rates, is_target=False))
    rows.append(_row(f"{name}, batch {batch}, each in its best way", best, is_target=True))
    for form in ("plain", "separable"):
        for words in ("", "mixed"):
            step = _make_step(name, batch, form, _WAYS[words])
            rows += _profile(f"{name}, {form}{', ' + words if words else ''}", step)
    return rows


def _row(case: str, rates: dict[str, float], *, is_target: bool) -> Row:
    ratio = rates["separable"] / rates["plain"]
    target = f">= {_TARGET}x" if is_target else ""
    met = ratio >= _TARGET if is_target else None
    return Row(case, "images/s", rates["separable"], rates["plain"], ratio, target, met)


def _make_step(name: str, batch: int, form: str, way: Way) -> Callable[[], None]:
    """One step of training, as :class:`partita.separable.training.Trainer` makes it."""
    architecture = Architecture.parse(name, groups=1 if form == "plain" else GROUPS)
    policy: Policy = silent(architecture)
    if form == "separable":
        policy = rotating(architecture, STALENESS)
    net = SeparableNet(architecture).train()
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(batch, *architecture.image, generator=draw)
    labels = torch.randint(architecture.classes, (batch,), generator=draw)
    net.lay_out(way.layout)
    optimiser = torch.optim.SGD(
        net.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, nesterov=True
    )

    def answer(given: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=way.mixed):
            logits: Tensor = net(given, policy)
        return logits.float()

    forward = torch.compile(answer, dynamic=False) if way.compiles else answer

    def step() -> None:
        optimiser.zero_grad()
        loss = functional.cross_entropy(forward(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def _profile(case: str, step: Callable[[], None]) -> Iterator[Row]:
    """Milliseconds of one step by kind of operation; the profiler itself takes some."""
    step()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        step()
    spent: dict[str, float] = defaultdict(float)
    for event in profiled.key_averages():
        spent[_kind(event.key)] += event.self_cpu_time_total / 1e3
    for kind, milliseconds in sorted(spent.items(), key=lambda item: -item[1]):
        yield shown(f"{case}: {kind}", "ms", milliseconds)


def _kind(name: str) -> str:
    return next((kind for kind, starts in _KINDS.items() if name.startswith(starts)), "the rest")
