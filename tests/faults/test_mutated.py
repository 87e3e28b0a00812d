"""Damaged inputs are taken or refused in one line: a few of what ``benchmarks.mutate`` tries."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests import (
    mutated_commands,
    mutated_grpc,
    mutated_http,
    mutated_inputs,
    mutated_streams,
)
from tests.mutations import Outcome

KINDS = {
    "frames": (mutated_inputs.try_frames, 300),
    "calls": (mutated_inputs.try_calls, 100),
    "sockets": (mutated_inputs.try_sockets, 50),
    "joins": (mutated_inputs.try_joins, 100),
    "files": (mutated_inputs.try_files, 150),
    "http": (mutated_http.try_http, 200),
    "grpc": (mutated_grpc.try_grpc, 200),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_input_is_taken_or_refused_in_one_line(kind: str) -> None:
    """No error of Python's own comes out, neither as itself nor as words."""
    attempt, count = KINDS[kind]
    seed, outcome = Random().randrange(2**32), Outcome()
    attempt(Random(seed), count, outcome)
    assert not outcome.bare, f"seed {seed}: {outcome.bare}"
    assert outcome.count >= count


def test_a_damaged_bundle_is_taken_or_refused_in_one_line(tmp_path: Path) -> None:
    """Manifests whose hash fits what they say, children and weights."""
    seed, outcome = Random().randrange(2**32), Outcome()
    mutated_inputs.try_bundles(Random(seed), 40, outcome, tmp_path)
    assert not outcome.bare, f"seed {seed}: {outcome.bare}"
    assert outcome.refused > 20


def test_a_damaged_command_does_its_work_or_refuses_in_one_line(tmp_path: Path) -> None:
    """Fields of cluster files, flags of plans, and plan files of replicas; nothing half-written."""
    seed, outcome = Random().randrange(2**32), Outcome()
    mutated_commands.try_commands(Random(seed), 40, outcome, tmp_path)
    assert not outcome.bare, f"seed {seed}: {outcome.bare}"
    assert outcome.refused > 5


def test_a_damaged_stream_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    """Pictures, videos, pipes and files of answers; inputs that cannot be decoded are named."""
    seed, outcome = Random().randrange(2**32), Outcome()
    mutated_streams.try_streams(Random(seed), 100, outcome, tmp_path)
    assert not outcome.bare, f"seed {seed}: {outcome.bare}"
    assert outcome.refused > 20
