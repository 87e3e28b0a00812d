"""A bundle that is trained while others change it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partita.errors import BundleError
from partita.loading import (
    PersonalOptions,
    compute_features,
    load_bundle,
    personalise,
    read_manifest,
    verify_bundle,
)
from partita.loading.personal import replace
from tests.loading.personal.test_personalise import content, draw, network, split


def test_two_that_train_at_once(tmp_path: Path) -> None:
    """The bundle is whole after each, and what is refused leaves the other's alone."""
    folder = split(network(), tmp_path / "b")
    samples, labels = draw(16)
    told: list[str] = []

    def train(seed: int) -> None:
        try:
            personalise(folder, samples, labels, PersonalOptions(epochs=3, seed=seed))
        except BundleError as error:
            told.append(error.message)

    for turn in range(3):
        threads = [threading.Thread(target=train, args=(2 * turn + k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        verify_bundle(folder, read_manifest(folder))
    assert all("was replaced while" in one for one in told)
    assert len(told) < 6


def test_a_bundle_that_is_replaced_while_it_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, and the new bundle is as it was written."""
    folder = split(network(), tmp_path / "b")
    samples, labels = draw(8)
    found: list[dict[str, bytes]] = []
    replace_last = replace.replace_last

    def late(*arguments: Any) -> Any:
        split(network(), folder, trainable=("head",))
        found.append(content(folder))
        return replace_last(*arguments)

    monkeypatch.setattr(replace, "replace_last", late)
    with pytest.raises(BundleError, match="was replaced while its last child was trained"):
        personalise(folder, samples, labels, PersonalOptions(epochs=1))
    assert found == [content(folder)]
    with load_bundle(folder) as session:
        session.wait()


def test_features_are_not_looked_for_in_a_pipe(tmp_path: Path) -> None:
    """Nobody would ever write to it."""
    folder = split(network(), tmp_path / "b")
    os.mkfifo(tmp_path / "pipe")
    compute_features(folder, draw(4)[0], cache=tmp_path / "pipe")


def test_a_bundle_that_cannot_be_written_is_trained_by_nobody(tmp_path: Path) -> None:
    """It is refused before the samples are even looked at."""
    bundle = split(network(), tmp_path / "b")
    variant = bundle / read_manifest(bundle).variants[0].name
    variant.rename(tmp_path / "elsewhere")
    variant.symlink_to("/proc")
    with pytest.raises(BundleError, match="cannot be written: No such file"):
        personalise(bundle, np.zeros((3, 1)), np.zeros(2))
