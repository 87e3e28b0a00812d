"""Training the last child of a bundle on its user's samples."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from partita.errors import BundleError, InputError, how_to_install
from partita.loading.bundle.manifest import Variant, choose_variant, read_manifest
from partita.loading.bundle.ort_session import open_child
from partita.loading.personal.features import Samples, check_samples, compute_features, fits
from partita.loading.personal.options import Outcome, PersonalOptions
from partita.memory import peak_bytes, release, reset_peak
from partita.regions import Array

if TYPE_CHECKING:
    from torch import Tensor

    from partita.loading.personal.module import TrainableChild

#: How far the module may be from the engine, beside the largest number that the engine gives: more
#: than float32's rounding over a few layers, less than any layer that mixes samples makes.
_TOLERANCE = 1e-3


def personalise(
    folder: str | Path,
    samples: Samples,
    labels: Array,
    options: PersonalOptions | None = None,
    *,
    cache: str | Path | None = None,
) -> Outcome:
    """Train the last child of a bundle, and put it into every variant.

    The frozen children run once over the samples; then the last child alone is in memory, and only
    weights of trainable layers have gradients. Failures and Ctrl-C leave the bundle as it was.

    Args:
        folder: The bundle, split with trainable layers.
        samples: (samples, ...) with the rest of the input's shape; a mapping by input name where
            the model has several. The model must take one sample at a time.
        labels: Class of each sample (samples,); for ``mse`` the wanted output (samples, ...).
        cache: File (``.npz``) for the features, as of :func:`partita.loading.compute_features`.

    Raises:
        BundleError: The bundle is damaged, has no trainable layers or an operator that cannot be
            trained, or cannot be written; or PyTorch is not installed.
        InputError: Samples or labels do not fit the model.
        RunError: Training diverged, or a child failed.
    """
    _load_torch()
    from partita.loading.personal.replace import check_room, replace_last

    options = options or PersonalOptions()
    began_s, held_bytes = time.perf_counter(), reset_peak()
    home = Path(folder)
    manifest = read_manifest(home)
    variant = choose_variant(manifest, home)
    check_room(home, manifest)
    count = len(next(iter(check_samples(variant, samples).values())))
    targets = _check_labels(labels, count, variant, options)
    features = compute_features(home, samples, variant=variant.name, cache=cache)
    feature_s = time.perf_counter() - began_s
    trained = _Training(home, variant, options).run(features, targets)
    trained_manifest = replace_last(home, manifest, trained.weights)
    names = tuple(variant.name for variant in trained_manifest.variants)
    return replace(
        trained.outcome,
        seconds=time.perf_counter() - began_s,
        feature_s=feature_s,
        peak_memory_bytes=max(0, peak_bytes() - held_bytes),
        variants=names,
        left_out=tuple(variant.name for variant in manifest.variants if variant.name not in names),
    )


def _load_torch() -> None:
    """Load PyTorch; only here, since what answers and what splits does without."""
    if find_spec("torch") is None:
        raise BundleError(
            "Personalisation needs 'torch', which is not installed. Install it:"
            f" {how_to_install('train')}.",
            subject="torch",
        )
    import_module("partita.loading.personal.train")


@dataclass(frozen=True)
class _Trained:
    """Weights by the model's names, and what is known of them so far."""

    weights: dict[str, Array]
    outcome: Outcome


@dataclass(frozen=True)
class _Training:
    """One training of one variant's last child."""

    home: Path
    variant: Variant
    options: PersonalOptions

    def run(self, features: Sequence[Array], labels: Array) -> _Trained:
        """The trained weights, and what they are worth."""
        import torch

        from partita.loading.personal.train import divide, score, torch_threads, train

        began_s, options = time.perf_counter(), self.options
        inputs, targets = [torch.from_numpy(array) for array in features], torch.from_numpy(labels)
        with torch_threads(options.threads):
            release()
            module = self.load(inputs)
            is_classes = options.loss == "cross_entropy"

            def forward(arrays: list[Tensor]) -> Tensor:
                outputs: Tensor = module(arrays, logits=is_classes)
                return outputs

            held_out, used = divide(len(labels), options)
            tested = [array[held_out] for array in inputs], targets[held_out]
            before = score(forward, *tested, options)
            release()
            trained_on = [array[used] for array in inputs], targets[used]
            train(forward, list(module.weights), *trained_on, options)
            after = score(forward, *tested, options)
            release()
        outcome = Outcome(
            accuracy_before=before.accuracy,
            accuracy_after=after.accuracy,
            loss_before=before.loss,
            loss_after=after.loss,
            judged=len(tested[1]),
            held_out=not isinstance(held_out, slice),
            train_s=time.perf_counter() - began_s,
            trained=sum(weight.numel() for weight in module.weights),
        )
        return _Trained(module.trained(), outcome)

    def load(self, inputs: Sequence[Tensor]) -> TrainableChild:
        """The last child as a module that answers as the child in the bundle does."""
        import torch

        from partita.loading.personal.module import TrainableChild
        from partita.loading.write.trainable_source import read_source

        folder, child = self.home / self.variant.name, self.variant.children[-1]
        module = TrainableChild(read_source(folder, child))
        few = [array[:2] for array in inputs]
        wanted = _run_child(folder / child.file, [array.numpy() for array in few])
        with torch.no_grad():
            answers = module(few).numpy()
        if answers.shape == wanted.shape:
            apart = float(np.abs(answers - wanted).max())
            if apart <= _TOLERANCE * max(1e-6, float(np.abs(wanted).max())):
                return module
        raise BundleError(
            f"Child '{folder / child.file}' cannot be trained: in a batch its layers do not answer"
            " as one sample at a time. Split the model so that layers which mix samples lie before"
            " the last child.",
            subject=str(folder / child.file),
        )


def _run_child(path: Path, features: Sequence[Array]) -> Array:
    """What the engine answers, one sample after the other."""
    session = open_child(path, 1)
    answers = [
        session.run(["o0"], {f"i{k}": array[n : n + 1] for k, array in enumerate(features)})[0]
        for n in range(len(features[0]))
    ]
    return np.concatenate(answers)


def _check_labels(labels: Array, count: int, variant: Variant, options: PersonalOptions) -> Array:
    """The labels as they are trained on.

    Raises:
        BundleError: The model has several outputs.
        InputError: The labels are no classes, or no outputs, of the model.
    """
    outputs = variant.program.outputs
    if len(outputs) != 1:
        raise BundleError(f"The model has {len(outputs)} outputs: one can be trained.")
    given, shape = np.asarray(labels), outputs[0].shape[1:]
    if options.loss == "mse":
        if given.shape != (count, *shape) or not np.can_cast(given.dtype, np.float32, "same_kind"):
            raise InputError(
                f"Labels are {given.dtype.name}{list(given.shape)}: for mse allowed are numbers"
                f" {[count, *shape]}, the wanted outputs."
            )
        if not fits(given, np.dtype(np.float32)):
            raise InputError(
                "Labels hold NaN, infinite numbers or such that are too large; allowed are finite."
            )
        return np.ascontiguousarray(given, np.float32)
    classes = math.prod(shape)
    if given.shape != (count,) or given.dtype.kind not in "iu":
        raise InputError(
            f"Labels are {given.dtype.name}{list(given.shape)}: allowed are {count} whole numbers,"
            f" a class from 0 to {classes - 1} for each sample."
        )
    if given.min() < 0 or given.max() >= classes:
        raise InputError(
            f"Labels are {given.min()} to {given.max()}: allowed are classes from 0 to"
            f" {classes - 1}, which the model knows."
        )
    return given.astype(np.int64)
