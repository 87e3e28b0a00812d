"""A search of policies, and the networks that are trained under what it found."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from partita.cli.access import check_engine_name
from partita.cli.actions.separable_run import (
    Clock,
    FormFlags,
    RunFlags,
    find_network,
    fit,
    keeping,
    tell_round,
)
from partita.cli.output import Advance, Reply, progress_bar, say, write_outputs
from partita.errors import InputError
from partita.lab.on_ray import connect_to_ray
from partita.report import draw_table
from partita.report.tables import TableData
from partita.separable.accuracy_traffic import (
    describe_candidates,
    describe_traffic,
    paint_front,
)
from partita.separable.controller import Space
from partita.separable.logs import Log, open_log
from partita.separable.network import Network, save_network, start_from
from partita.separable.options import Setting
from partita.separable.residual import ResidualNetwork
from partita.separable.search import Aim, Search
from partita.separable.trials import Trial, train_on_ray
from partita.units import format_bytes

__all__ = ["FormFlags", "RunFlags", "search_policies"]


def search_policies(
    form: FormFlags,
    run: RunFlags,
    sampler: str,
    prices: str | None,
    *,
    sparse: bool,
    halves: bool,
    engine: str | None = None,
) -> Reply:
    """Search policies, train a network under the best for each price, and judge these once.

    Args:
        engine: What trains these, all at once: ``ray``, or None for this process, one by one.

    Raises:
        InputError: Pictures, folder, engine or a number cannot be used.
        ModelError: Numbers of the architecture do not go together.
        RunError: There is no Ray, or the loss is no longer a number.
    """
    check_engine_name(engine)
    setting = form.read()
    aim = Aim(
        sampler, setting.prices if prices is None else parse_prices(prices), run.drop_messages
    )
    architecture = find_network(form, setting, run.weights)
    state = run.prepare()
    clock = Clock.start()
    with contextlib.ExitStack() as stack:
        if engine:
            stack.enter_context(connect_to_ray())  # hours before it is needed
        architecture, data = run.read_data(architecture)
        space = Space(architecture, setting.staleness, sparse, halves)
        search = Search(space, data, setting.search, setting.train, aim, seed=run.seed)
        if run.weights is not None:
            start_from(search.net, run.weights, architecture)
        if run.resume:
            search.restore(state)
        run.output.mkdir(exist_ok=True)
        advance = stack.enter_context(progress_bar("searching"))
        log = stack.enter_context(open_log(run.log_folder))
        _run_rounds(search, state, advance, log)
        say("choosing by all validation pictures")
        networks = _tune(search, run, engine, advance, log)
    payload = _describe(search, setting, networks, run.output) | clock.facts()
    reply = Reply(payload, _show(payload))
    reply.shown += [f"Took:     {clock}", f"Written to {run.output}"]
    return reply


def parse_prices(text: str) -> tuple[float, ...]:
    """Prices of a text such as ``0,0.1,0.3``.

    Raises:
        InputError: It is something else, or a price is below 0.
    """
    try:
        prices = tuple(float(part) for part in text.split(","))
    except ValueError:
        prices = (-1.0,)
    if not all(0 <= price <= 1000 for price in prices):
        raise InputError(
            f"--prices '{text}': allowed are numbers from 0 to 1000 with commas between.",
            subject=text,
        )
    return prices


def _run_rounds(search: Search, state: Path, advance: Advance, log: Log) -> None:
    rounds = search.options.rounds
    while search.round < rounds:
        name = f"round {search.round + 1} of {rounds}"
        with keeping(state):
            loss = search.run_round(tell_round(advance, name))
        search.save(state)
        best = search.best
        ends = dict.fromkeys((best[0], best[-1]))
        words = " to ".join(f"{one.accuracy:.1%} at {one.traffic:.1%}" for one in ends)
        say(f"{name}: loss {loss:.3f}, front {words} of the ring's bytes")
        log(
            search.round,
            {
                "search/loss": loss,
                "search/best accuracy": best[-1].accuracy,
                "search/mean reward": sum(one.reward for one in search.found) / len(search.found),
            },
        )


def _tune(
    search: Search, run: RunFlags, engine: str | None, advance: Advance, log: Log
) -> list[dict[str, Any]]:
    """Train the shared weights under the best policies, and write the networks."""
    trials = [search.trial(chosen) for chosen in search.choose()]
    paths = [run.output / f"network-{number}.safetensors" for number in range(1, len(trials) + 1)]
    if engine and search.options.tuning_epochs:
        networks = _train_on_ray(trials, paths, run.threads, advance, log)
    else:
        networks = [
            _train_here(trial, path, search.options.tuning_epochs, advance, log)
            for trial, path in zip(trials, paths, strict=True)
        ]
    for path, network in zip(paths, networks, strict=True):
        save_network(path, network)
    return [
        {
            "file": path.name,
            "policy": str(network.policy),
            **network.facts,
            **describe_traffic(search.space.architecture, network.policy),
        }
        for path, network in zip(paths, networks, strict=True)
    ]


def _train_here(trial: Trial, path: Path, epochs: int, advance: Advance, log: Log) -> Network:
    fitting, state = trial.start(), path.with_stem(f"{path.stem}-state")
    if epochs:
        if state.exists():
            fitting.restore(state)
        fit(fitting, state, path.stem, advance, log)
    return trial.end(fitting)


def _train_on_ray(
    trials: Sequence[Trial],
    paths: Sequence[Path],
    threads: int | None,
    advance: Advance,
    log: Log,
) -> list[Network]:
    say(f"training {len(trials)} network(s) on Ray")
    done = count(1)

    def told(number: int, losses: Sequence[float]) -> None:
        name = paths[number].stem
        advance(next(done), len(trials), f"{name} is trained")
        say(f"{name}: {len(losses)} epoch(s), loss {losses[-1]:.3f}")
        for epoch, loss in enumerate(losses, 1):
            log(epoch, {f"{name}/loss": loss})

    return train_on_ray(trials, threads, told)


def _describe(
    search: Search,
    setting: Setting,
    networks: list[dict[str, Any]],
    folder: Path,
) -> dict[str, Any]:
    """The reply; writes the front, too, as JSON and as a picture."""
    architecture: ResidualNetwork = search.space.architecture
    payload = {
        "folder": str(folder),
        "architecture": str(architecture),
        "parameters": architecture.count_parameters(),
        "staleness": setting.staleness,
        "policies": search.space.size,
        "sampler": search.aim.sampler,
        "halves": search.space.halves,
        "pictures": search.part.counts(),
        "losses": search.losses,
        "networks": networks,
    }
    found = {"candidates": describe_candidates(architecture, search.found)}
    marks = [
        (one["file"].removesuffix(".safetensors"), one["bytes_share"], one["test_accuracy"])
        for one in networks
    ]
    title = f"{architecture}, staleness {setting.staleness}: {search.aim.sampler}"
    write_outputs(
        folder,
        {
            "front.json": json.dumps(payload | found, indent=1).encode(),
            "front.png": paint_front(search.found, marks, title),
        },
    )
    return payload


def _show(payload: dict[str, Any]) -> list[Any]:
    counts = payload["pictures"]
    rows = tuple(
        (
            one["file"],
            one["policy"],
            ", ".join(f"{price:g}" for price in one["prices"]),
            f"{one['validation_accuracy']:.2%}",
            f"{one['test_accuracy']:.2%}",
            f"{one['maps_share']:.2%}",
            f"{one['bytes_share']:.2%}",
            format_bytes(one["bytes"]),
        )
        for one in payload["networks"]
    )
    columns = ("network", "policy", "prices", "right: validation", "test")
    more = ("of the ring's maps", "of its bytes", "sent")
    table = TableData("Best policy for each price", (*columns, *more), rows, text_columns=2)
    return [
        f"Network:  {payload['architecture']}, {payload['parameters']:,} parameters, staleness"
        f" {payload['staleness']}",
        f"Policies: {payload['policies']:.3g} to choose from, by {payload['sampler']}",
        f"Pictures: {counts['train']:,} to train, {counts['validation']:,} to choose by,"
        f" {counts['test']:,} to test",
        draw_table(table),
    ]
