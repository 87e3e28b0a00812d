"""A plan as standard files: fragments, a manifest, and the model with its devices stamped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import onnx

from partita.cluster import Cluster
from partita.compile.emit import Compiled, compile_plan
from partita.compile.exported_weights import hold_weights
from partita.compile.planned import planned_graph
from partita.engine.onnx_facts import NO_ROUNDING
from partita.errors import InputError
from partita.graph import Graph
from partita.plan import Plan, Stage, hash_plan
from partita.program import Compute, DeviceProgram, Feed, Program, Receive, Send
from partita.regions import Region, describe_wire, most_bytes

_DEVICE_IR_VERSION = 11
_MODEL = "model.onnx"


def export_plan(graph: Graph, plan: Plan, cluster: Cluster, folder: Path) -> list[Path]:
    """Write the plan's files into ``folder`` and return the fragments' paths.

    A fragment has its weights, packed codes among them, inputs ``i0``, ``i1``... and outputs
    ``o0``, ``o1``...; its file bears the device's name where that runs it alone and nothing else,
    as an edge and a cloud do. ``manifest.json`` says which device runs which, which of these names
    stands for which box of which tensor, and what travels in what form; ``model.onnx`` is the whole
    network with each node's devices stamped as ONNX device configuration.

    Raises:
        InputError: The folder exists and holds other files, or cannot be written.
    """
    try:
        if folder.exists() and any(folder.iterdir()):
            raise InputError(
                f"Folder '{folder}' is not empty. Name a new one.", subject=str(folder)
            )
        graph = planned_graph(graph, plan)
        compiled = compile_plan(graph, plan, cluster)
        work = Path(tempfile.mkdtemp(prefix=".export-", dir=folder.parent))
        try:
            names = fragment_names(compiled.program)
            _write(work, compiled, names)
            hashes = [hashlib.sha256((work / name).read_bytes()).hexdigest() for name in names]
            files = list(zip(names, hashes, strict=True))
            text = json.dumps(_describe(graph, plan, compiled, files), indent=1) + "\n"
            (work / "manifest.json").write_text(text, encoding="utf-8")
            onnx.save_model(stamp_devices(graph, plan, cluster), str(work / _MODEL))
            os.chmod(work, 0o755)
            if folder.exists():
                folder.rmdir()
            work.rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"Folder '{folder}' cannot be written: {error.strerror}.", subject=str(folder)
        ) from error
    return [folder / name for name in names]


def _write(folder: Path, compiled: Compiled, names: Sequence[str]) -> None:
    for name, info in zip(names, compiled.program.fragments, strict=True):
        model = onnx.load_model_from_string(compiled.graphs[info.hash])
        hold_weights(model, compiled.blobs)
        onnx.save_model(model, str(folder / name))


def fragment_names(program: Program) -> list[str]:
    """The file name of each fragment."""
    users: list[set[str]] = [set() for _ in program.fragments]
    for part in program.devices:
        for step in part.steps:
            if isinstance(step, Compute):
                users[step.fragment].add(part.device)
    runs = Counter(device for devices in users for device in devices)
    names = []
    for number, devices in enumerate(users):
        alone = devices.pop() if len(devices) == 1 else ""
        own = f"{alone}.onnx" if runs[alone] == 1 else ""
        names.append(own if own and own.lower() != _MODEL else f"fragment-{number:02d}.onnx")
    return names


def _describe(
    graph: Graph, plan: Plan, compiled: Compiled, files: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The manifest; files have names and hashes."""
    program, names = compiled.program, [name for name, _ in files]
    return {
        "model": graph.name,
        "model_hash": graph.hash,
        "plan_hash": hash_plan(plan),
        "requester": program.requester,
        "inputs": [{"name": s.name, "shape": s.shape, "dtype": s.dtype} for s in program.inputs],
        "outputs": [{"name": s.name, "shape": s.shape, "dtype": s.dtype} for s in program.outputs],
        "fragments": [
            {
                "file": name,
                "sha256": digest,
                "weight_bytes": info.weight_bytes,
                "stored_bytes": info.stored_bytes,
            }
            for (name, digest), info in zip(files, program.fragments, strict=True)
        ],
        # Else ONNX Runtime quantises what is between pairs of quantising nodes on its own.
        "session_options": {
            "session.disable_quant_qdq": str(int(not graph.integer)),
            **dict([NO_ROUNDING] if graph.integer else []),
        },
        "wires": {wire: describe_wire(wire) for wire in sorted({s.wire for s in program.streams})},
        "devices": {
            part.device: list(_describe_steps(compiled, part, names)) for part in program.devices
        },
    }


def _describe_steps(
    compiled: Compiled, part: DeviceProgram, names: Sequence[str]
) -> Iterable[dict[str, Any]]:
    buffers = {buffer.id: buffer for buffer in part.buffers}

    def piece(name: str, tensor: str, box: Region) -> dict[str, Any]:
        return {"name": name, "tensor": tensor, "box": box.bounds}

    for step in part.steps:
        if isinstance(step, Compute):
            yield {
                "do": "compute",
                "fragment": names[step.fragment],
                "inputs": [piece(f"i{k}", r.tensor, r.box) for k, r in enumerate(step.reads)],
                "outputs": [
                    piece(f"o{k}", buffers[number].tensor, buffers[number].box)
                    for k, number in enumerate(step.writes)
                ],
            }
        elif isinstance(step, (Send, Receive)):
            stream = compiled.program.streams[step.stream]
            sends = isinstance(step, Send)
            yield {
                "do": "send" if sends else "receive",
                "to" if sends else "from": stream.target if sends else stream.source,
                "tensor": stream.tensor,
                "box": stream.box.bounds,
                "dtype": stream.dtype,
                "wire": stream.wire,
                "payload_bytes": most_bytes(stream.box.shape, stream.dtype, stream.wire),
                **({} if stream.grid is None else msgspec.structs.asdict(stream.grid)),
            }
        elif isinstance(step, Feed):
            yield {"do": "feed", "tensor": step.tensor}


def stamp_devices(graph: Graph, plan: Plan, cluster: Cluster) -> onnx.ModelProto:
    """The whole network with one device configuration: each node's devices, and split axis.

    Shares of a stage may be unequal, which the standard cannot say; the manifest does.
    """
    model = graph.to_model()
    model.ir_version = max(model.ir_version, _DEVICE_IR_VERSION)
    numbers = {name: k for k, name in enumerate(cluster.names)}
    model.configuration.append(
        onnx.DeviceConfigurationProto(
            name=plan.planner, num_devices=len(numbers), device=list(numbers)
        )
    )
    for index, stage in enumerate(plan.stages):
        for name in stage.layers:
            for node in graph.layer(name).nodes:
                _stamp(model.graph.node[node], stage, index, numbers, plan.planner)
    return model


def _stamp(
    node: onnx.NodeProto, stage: Stage, index: int, numbers: dict[str, int], configuration: str
) -> None:
    stamp = node.device_configurations.add(configuration_id=configuration, pipeline_stage=index)
    devices = list(dict.fromkeys(numbers[shard.device] for shard in stage.shards))
    boxes = stage.shards[0].boxes
    for output in node.output:
        spec = stamp.sharding_spec.add(tensor_name=output, device=devices)
        if output not in boxes or stage.merge:
            continue
        for axis in range(len(boxes[output].bounds)):
            if len({shard.boxes[output].bounds[axis] for shard in stage.shards}) > 1:
                dim = spec.sharded_dim.add(axis=axis)
                dim.simple_sharding.add(num_shards=len(devices))
