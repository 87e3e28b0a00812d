"""A search of policies, and the networks that are trained under what it found."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from partita.report import draw_table
from partita.report.tables import TableData
from partita.separable.accuracy_traffic import (
    describe_candidates,
    describe_traffic,
    paint_front,
)
from partita.separable.controller import Space
from partita.separable.fitting import Fitting
from partita.separable.logs import Log, open_log
from partita.separable.network import Network, save_network, start_from
from partita.separable.options import Setting
from partita.separable.residual import ResidualNetwork
from partita.separable.search import Aim, Candidate, Search
from partita.separable.training import judge
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
) -> Reply:
    """Search policies, train a network under the best for each price, and judge these once.

    Raises:
        InputError: Pictures, folder or a number cannot be used.
        ModelError: Numbers of the architecture do not go together.
        RunError: The loss is no longer a number.
    """
    setting = form.read()
    aim = Aim(
        sampler, setting.prices if prices is None else parse_prices(prices), run.drop_messages
    )
    architecture = find_network(form, setting, run.weights)
    state = run.prepare()
    architecture, data = run.read_data(architecture)
    space = Space(architecture, setting.staleness, sparse, halves)
    clock = Clock.start()
    search = Search(space, data, setting.search, setting.train, aim, seed=run.seed)
    if run.weights is not None:
        start_from(search.net, run.weights, architecture)
    if run.resume:
        search.restore(state)
    with progress_bar("searching") as advance, open_log(run.log_folder) as log:
        _run_rounds(search, state, advance, log)
        say("choosing by all validation pictures")
        networks = [
            _tune(search, chosen, run.output / f"network-{number}.safetensors", advance, log)
            for number, chosen in enumerate(search.choose(), 1)
        ]
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
    search: Search, chosen: Candidate, path: Path, advance: Advance, log: Log
) -> dict[str, Any]:
    """Train the shared weights under one policy, and write the network."""
    options = search.options
    train = replace(
        search.part.options, epochs=max(1, options.tuning_epochs), rate=options.tuning_rate
    )
    fitting = Fitting(
        copy.deepcopy(search.net),
        chosen.policy,
        replace(search.part, options=train),
        seed=search.seed,
        drop_messages=search.aim.drop_messages,
    )
    state = path.with_stem(f"{path.stem}-state")
    if options.tuning_epochs:
        if state.exists():
            fitting.restore(state)
        fit(fitting, state, path.stem, advance, log)
    facts = {
        "price": chosen.price,
        "validation_accuracy": judge(fitting.net, chosen.policy, search.part.judged),
        "test_accuracy": judge(fitting.net, chosen.policy, search.part.test),
    }
    save_network(path, Network(fitting.net, chosen.policy, facts))
    traffic = describe_traffic(search.space.architecture, chosen.policy)
    return {"file": path.name, "policy": str(chosen.policy), **facts, **traffic}


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
            f"{one['price']:g}",
            f"{one['validation_accuracy']:.2%}",
            f"{one['test_accuracy']:.2%}",
            f"{one['maps_share']:.2%}",
            f"{one['bytes_share']:.2%}",
            format_bytes(one["bytes"]),
        )
        for one in payload["networks"]
    )
    columns = ("network", "policy", "price", "right: validation", "test")
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
