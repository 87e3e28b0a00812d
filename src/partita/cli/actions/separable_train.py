"""One network, trained under one policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from partita.cli.actions.separable_flags import naming_flags
from partita.cli.actions.separable_run import (
    Clock,
    FormFlags,
    RunFlags,
    describe_accounts,
    find_network,
    fit,
)
from partita.cli.output import Reply, progress_bar
from partita.errors import InputError
from partita.separable.accuracy_traffic import describe_traffic
from partita.separable.data import Dataset
from partita.separable.fitting import Fitting
from partita.separable.logs import open_log
from partita.separable.network import Network, load_network, save_network, start_from
from partita.separable.options import Setting
from partita.separable.policy import Policy, silent
from partita.separable.residual import ResidualNetwork
from partita.separable.training import divide, judge, judge_losses, start_net

__all__ = ["FormFlags", "RunFlags", "train_policy"]

_PLAIN = "plain"


def train_policy(form: FormFlags, run: RunFlags, text: str, *, halves: bool) -> Reply:
    """Train a network, write it, and judge it on the test pictures, once.

    Args:
        text: Of the policy.

    Raises:
        InputError: Pictures, folder or a number cannot be used.
        ModelError: Architecture and policy do not go together.
        RunError: The loss is no longer a number.
    """
    setting, architecture, policy = _choose(form, run, text, halves=halves)
    state = run.prepare()
    architecture, data = run.read_data(architecture)
    clock = Clock.start()
    fitting = _fitting(architecture, policy, data, setting, run)
    if run.resume:
        fitting.restore(state)
    run.output.mkdir(exist_ok=True)
    with progress_bar("training") as advance, open_log(run.log_folder) as log:
        fit(fitting, state, "training", advance, log)
        advance(0, 1, "judging")
        facts = _judge(fitting)
    path = run.output / "network.safetensors"
    save_network(path, Network(fitting.net, policy, facts))
    payload = {
        "network": str(path),
        "architecture": str(architecture),
        "parameters": architecture.count_parameters(),
        "staleness": policy.staleness,
        "policy": str(policy),
        "pictures": fitting.part.counts(),
        **facts,
        **describe_traffic(architecture, policy),
        **clock.facts(),
    }
    return Reply(payload, [*_show(fitting, payload), f"Took:     {clock}", f"Written to {path}"])


def _choose(
    form: FormFlags, run: RunFlags, text: str, *, halves: bool
) -> tuple[Setting, ResidualNetwork, Policy]:
    """The numbers, the network and its policy, which fit each other."""
    setting = form.read()
    if text == _PLAIN and form.groups not in (None, 1):
        raise InputError("--policy plain: the network is one piece; leave --groups out.")
    other = load_network(Path(text)) if text.endswith(".safetensors") else None
    named = None if other is None else other.policy
    if named is not None:
        if form.alpha not in (None, named.staleness):
            raise InputError(
                f"--alpha {form.alpha}: the policy of '{text}' has {named.staleness}; leave it out."
            )
        setting = replace(setting, staleness=named.staleness)
    architecture = find_network(form, setting, run.weights, groups=1 if text == _PLAIN else None)
    if text == _PLAIN and architecture.groups > 1:
        raise InputError(
            f"--policy plain: --from {run.weights} is of {architecture}, which is not one piece."
            " Allowed with it: none, numbers, a network's file."
        )
    if other is not None and other.net.architecture.groups != architecture.groups:
        raise InputError(
            f"--policy '{text}' is for {other.net.architecture.groups} groups, the network has"
            f" {architecture.groups}: allowed is the policy of a network with as many."
        )
    with naming_flags(policy=f"--policy '{text}'"):
        policy = named or _read_policy(text, architecture, setting, halves=halves)
        policy.exchanges(architecture)
    if halves and not policy.halves:
        raise InputError(f"--halves changes nothing of --policy {text}: leave it out.")
    if run.drop_messages and not policy.exchanges(architecture):
        raise InputError(
            f"--drop-messages changes nothing of --policy {text}, which sends nothing: leave it"
            " out."
        )
    return setting, architecture, policy


def _read_policy(
    text: str, architecture: ResidualNetwork, setting: Setting, *, halves: bool
) -> Policy:
    """The policy that words or numbers say."""
    if text in (_PLAIN, "none"):
        return silent(architecture, setting.staleness)
    return Policy.parse(text, setting.staleness, halves=halves)


def _fitting(
    architecture: ResidualNetwork, policy: Policy, data: Dataset, setting: Setting, run: RunFlags
) -> Fitting:
    part = divide(data, setting.train, run.seed)
    net = start_net(architecture, part.train, seed=run.seed)
    if run.weights is not None:
        start_from(net, run.weights, architecture)
    return Fitting(net, policy, part, seed=run.seed, drop_messages=run.drop_messages)


def _judge(fitting: Fitting) -> dict[str, Any]:
    """Shares of right answers; without a group's messages, by what was held out."""
    net, policy, held = fitting.net, fitting.policy, fitting.part.judged
    whole = judge(net, policy, held)
    lost = judge_losses(net, policy, held)
    return {
        "validation_accuracy": whole,
        "accuracy_without_group": {str(group): share for group, share in lost.items()},
        "test_accuracy": judge(net, policy, fitting.part.test),
    }


def _show(fitting: Fitting, payload: dict[str, Any]) -> list[str]:
    architecture = fitting.net.architecture
    counts = payload["pictures"]
    lines = [
        f"Network:  {architecture}, {payload['parameters']:,} parameters, staleness"
        f" {payload['staleness']}",
        f"Pictures: {counts['train']:,} to train, {counts['validation']:,} to choose by,"
        f" {counts['test']:,} to test",
        describe_accounts(architecture, fitting.policy),
        f"Right:    {payload['validation_accuracy']:.2%} of validation,"
        f" {payload['test_accuracy']:.2%} of test",
    ]
    lost = payload["accuracy_without_group"]
    if lost:
        words = ", ".join(f"{share:.2%} without group {group}'s" for group, share in lost.items())
        lines.append(f"Messages: {words}, of validation")
    return lines
