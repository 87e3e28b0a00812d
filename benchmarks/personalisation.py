"""Personalisation: a bundle's last child trained alone, against the same layers in the whole model.

Accuracy: a small network learns upright digits (scikit-learn's real, handwritten ones), and a user
whose digits lie on their side has 100 samples; tested on others. Memory and time: MobileNet-V1 at
224 px with drawn weights, 64 samples. The peer is PyTorch: the whole model with all but the same
layers frozen, the same optimiser, batches and seed. Memory is of processes of their own, the most
that is resident beyond what is after all imports, one tiny step of training, and drawing samples.

    python -m benchmarks.personalisation [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from sklearn.datasets import load_digits
from torch import Tensor, nn

from benchmarks.harness import ROOT, Array, Row, make_parser, report, say
from partita.graph import load_graph
from partita.loading import Division, PersonalOptions, load_bundle, personalise, write_bundle
from partita.loading.personal.optimisers import OPTIMISERS
from partita.memory import peak_bytes, reset_peak

MOST_APART_POINTS, MOST_MEMORY = 0.5, 1 / 3
SEEDS, BASE_SAMPLES, USER_SAMPLES = (0, 1, 2), 1000, 100
SIZE, SAMPLES, CLASSES = 224, 64, 10
#: Output channels and stride of MobileNet-V1's blocks (Howard et al. 2017, table 1).
BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2),
    (1024, 1),
)  # fmt: skip
#: Layers that are trained, from the end: name, and how many layers with weights.
CASES = {"classifier": 1, "last block, classifier": 3}
LARGE = PersonalOptions(epochs=5, rate=0.001, batch=16, held_out=0)


def digit_network() -> nn.Sequential:
    """Return the small network, untrained: (N, 1, 8, 8) to (N, 10)."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(64 * 16, 64), nn.ReLU(), nn.Linear(64, CLASSES)),
    )


def mobilenet() -> nn.Sequential:
    """Return MobileNet-V1, its normalisations folded; weights keep the variance (He et al.)."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(inplace=True)]
    width = 32
    for channels, stride in BLOCKS:
        layers += [nn.Conv2d(width, width, 3, stride, 1, groups=width), nn.ReLU(inplace=True)]
        layers += [nn.Conv2d(width, channels, 1), nn.ReLU(inplace=True)]
        width = channels
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
    return network


def to_onnx(network: nn.Sequential, shape: tuple[int, ...]) -> onnx.ModelProto:
    """Return the network as ONNX for one sample; layers are called by their number."""
    nodes, weights, at, labels = [], [], "x", 0
    for name, layer in network.named_children():
        inputs, made = [at], f"t{name}"
        for key, value in layer.named_parameters():
            inputs.append(f"{name}.{key}")
            weights.append(numpy_helper.from_array(value.detach().numpy(), inputs[-1]))
        op, attrs = describe(layer)
        nodes.append(helper.make_node(op, inputs, [made], name=name, **attrs))
        at, labels = made, layer.out_features if isinstance(layer, nn.Linear) else labels
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, extents)
        for name, extents in (("x", list(shape)), (at, [1, labels]))
    ]
    graph = helper.make_graph(nodes, "network", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def describe(layer: nn.Module) -> tuple[str, dict[str, Any]]:
    """Return ONNX's operator and attributes for a layer of PyTorch."""
    if isinstance(layer, nn.Conv2d):
        attrs = {"kernel_shape": layer.kernel_size, "strides": layer.stride, "group": layer.groups}
        return "Conv", {**attrs, "pads": [*layer.padding, *layer.padding]}
    if isinstance(layer, nn.MaxPool2d):
        return "MaxPool", {"kernel_shape": [layer.kernel_size] * 2, "strides": [layer.stride] * 2}
    if isinstance(layer, nn.Linear):
        return "Gemm", {"transB": 1}
    return {nn.ReLU: "Relu", nn.Flatten: "Flatten", nn.AdaptiveAvgPool2d: "GlobalAveragePool"}[
        type(layer)
    ], {}


def write(network: nn.Sequential, shape: tuple[int, ...], trained: int, folder: Path) -> None:
    """Write a bundle of two children; the last begins with the first of ``trained`` layers."""
    graph = load_graph(to_onnx(network, shape), name="network")
    with_weights = [layer.name for layer in graph.layers if layer.weight_bytes]
    chosen = with_weights[-trained:]
    start = [layer.name for layer in graph.layers].index(chosen[0])
    write_bundle(graph, [Division("here", (start, len(graph.layers)))], folder, trainable=chosen)


def fine_tune(
    network: nn.Sequential, trained: int, samples: Tensor, labels: Tensor, options: PersonalOptions
) -> None:
    """Train the last layers inside the whole network, as is usual in PyTorch."""
    layers = [layer for layer in network if any(True for _ in layer.parameters())]
    network.requires_grad_(False)
    for layer in layers[-trained:]:
        layer.requires_grad_(True)
    fit(network, samples, labels, options)


def fit(network: nn.Module, samples: Tensor, labels: Tensor, options: PersonalOptions) -> None:
    parameters = [one for one in network.parameters() if one.requires_grad]
    optimiser = torch.optim.Adam(parameters, options.rate)
    draw = torch.Generator().manual_seed(options.seed)
    for _ in range(options.epochs):
        for chosen in torch.split(torch.randperm(len(labels), generator=draw), options.batch):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(network(samples[chosen]), labels[chosen])
            torch.autograd.backward(loss)
            optimiser.step()


def digits(seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield samples and labels: upright ones, the user's own, and others that lie on their side."""
    found = load_digits()
    order = np.random.default_rng(seed).permutation(len(found.target))
    images = (found.images[order, None] / 16).astype(np.float32)
    turned = np.ascontiguousarray(np.rot90(images, axes=(2, 3)))
    ends = [0, BASE_SAMPLES, BASE_SAMPLES + USER_SAMPLES, len(order)]
    for pool, start, stop in zip((images, turned, turned), ends[:-1], ends[1:], strict=True):
        yield pool[start:stop], found.target[order][start:stop]


def measure_accuracy(folder: Path, seed: int) -> tuple[float, float, float]:
    """Return the shares of right answers on the user's other digits: before, ours, the peer's."""
    (samples, labels), own, (others, truth) = digits(seed)
    torch.manual_seed(seed)
    network = digit_network()
    options = PersonalOptions(epochs=15, rate=0.002, batch=32, seed=seed)
    fit(network, torch.from_numpy(samples), torch.from_numpy(labels), options)
    write(network, (1, 1, 8, 8), 3, folder)
    options = PersonalOptions(epochs=30, rate=0.001, batch=16, held_out=0, seed=seed)

    def answers(session: Any) -> Array:
        return np.concatenate([session.run(None, {"x": one[None]})[0] for one in others])

    shares = []
    for step in (None, lambda: personalise(folder, *own, options)):
        if step is not None:
            step()
        with load_bundle(folder) as session:
            shares.append(float((answers(session).argmax(1) == truth).mean()))
    fine_tune(network, 3, torch.from_numpy(own[0]), torch.from_numpy(own[1]), options)
    with torch.no_grad():
        found = network(torch.from_numpy(others)).argmax(1).numpy()
    return shares[0], shares[1], float((found == truth).mean())


def draw_samples() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((SAMPLES, 3, SIZE, SIZE), np.float32), np.arange(SAMPLES) % CLASSES


def run_ours(folder: Path, trained: int, samples: Array, labels: Array, cache: Path | None) -> None:
    personalise(folder / f"bundle-{trained}", samples, labels, LARGE, cache=cache)


def run_peer(folder: Path, trained: int, samples: Array, labels: Array, cache: Path | None) -> None:
    with torch.device("meta"):
        network = mobilenet()
    network.load_state_dict(torch.load(folder / "weights.pt"), assign=True)
    fine_tune(network, trained, torch.from_numpy(samples), torch.from_numpy(labels), LARGE)
    torch.save(network.state_dict(), folder / "trained.pt")


RUNS: dict[str, Callable[[Path, int, Array, Array, Path | None], None]] = {
    "ours": run_ours,
    "peer": run_peer,
}


def run_child(which: str, folder: Path, trained: int, cache: Path | None, *, warm: bool) -> None:
    """Run one side in this process, and print what it took as JSON."""
    torch.set_num_threads(1)
    if warm:
        tiny = nn.Linear(2, 2)
        fit(tiny, torch.ones(2, 2), torch.tensor([0, 1]), PersonalOptions(epochs=1))
        OPTIMISERS["adam"](list(tiny.parameters()), 0.1).step()
    samples = draw_samples()
    held, began_s = reset_peak(), time.perf_counter()
    RUNS[which](folder, trained, *samples, cache)
    seconds, most = time.perf_counter() - began_s, peak_bytes()
    print(json.dumps({"beyond": most - held, "all": most, "seconds": seconds}))


def spawn(which: str, folder: Path, trained: int, *flags: str) -> dict[str, float]:
    """Return what one side took in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.personalisation", "--run", which]
    command += ["--folder", str(folder), "--trained", str(trained), *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_large(folder: Path) -> Iterator[Row]:
    """Yield the rows of memory and time."""
    network = mobilenet()
    torch.save(network.state_dict(), folder / "weights.pt")
    for name, trained in CASES.items():
        say(f"== {name}")
        write(network, (1, 3, SIZE, SIZE), trained, folder / f"bundle-{trained}")
        cache = ("--cache", str(folder / f"features-{trained}.npz"))
        peer, ours = (spawn(which, folder, trained, "--warm") for which in ("peer", "ours"))
        spawn("ours", folder, trained, *cache)
        cached = spawn("ours", folder, trained, "--warm", *cache)
        whole = [spawn(which, folder, trained) for which in ("ours", "peer")]
        for case, one in (("", ours), (", features kept", cached)):
            ratio = one["beyond"] / peer["beyond"]
            sizes = one["beyond"] / 1e6, peer["beyond"] / 1e6
            target, met = f"<= {MOST_MEMORY:.2f} of the peer's", ratio <= MOST_MEMORY
            yield Row(f"{name}: memory{case}", "MB", *sizes, ratio, target, met)
        sizes = whole[0]["all"] / 1e6, whole[1]["all"] / 1e6
        yield Row(f"{name}: imports and all", "MB", *sizes, sizes[0] / sizes[1], "", None)
        seconds = ours["seconds"], peer["seconds"]
        ratio = seconds[0] / seconds[1]
        yield Row(f"{name}: time", "s", *seconds, ratio, "<= the peer's", ratio <= 1)


def measure() -> list[Row]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say("== digits")
        found = [measure_accuracy(folder / f"digits-{seed}", seed) for seed in SEEDS]
        before, ours, peer = (100 * statistics.mean(column) for column in zip(*found, strict=True))
        apart = 100 * max(abs(one[1] - one[2]) for one in found)
        target = f"<= {MOST_APART_POINTS} points apart, every seed"
        rows = [
            Row("digits: right before", "%", before, before, None, "", None),
            Row("digits: right after", "%", ours, peer, apart, target, apart <= MOST_APART_POINTS),
        ]
        return [*rows, *measure_large(folder)]


def main() -> int:
    parser = make_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--run", choices=RUNS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--trained", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--warm", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run_child(args.run, args.folder, args.trained, args.cache, warm=args.warm)
        return 0
    return report(measure(), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
