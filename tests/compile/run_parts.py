"""Runs an exported plan by its manifest alone: NumPy and ONNX Runtime, nothing of Partita.

``python run_parts.py FOLDER INPUTS.npz OUTPUTS.npz``: all devices in one process, what they send to
each other as bytes.
"""

import json
import sys
import zlib
from pathlib import Path

sys.modules["partita"] = None  # type: ignore[assignment]  # importing it fails

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402


def pack(array, step, form):
    """Return the payload of an array."""
    plain = pack_plain(array, step, form)
    if "compression" not in form:
        return plain
    assert form["compression"].startswith("zlib")
    packed = zlib.compress(plain)
    return packed if len(packed) < len(plain) else plain


def pack_plain(array, step, form):
    """Return the payload without compression."""
    if "bits" not in form:
        return array.astype("<f2" if step["wire"] == "float16" else array.dtype).tobytes()
    bits, head = form["bits"], b""
    if [name for name, _ in form["head"]] == ["checksum"]:
        codes = np.rint(array / np.float32(step["scale"])) + step["zero"]
    else:
        low = array.min()
        scale = (array.max() - low) / (2**bits - 1) or 1.0
        codes = np.rint((array - low) / scale)
        head = np.array([scale, low], "<f4").tobytes()
    lanes = codes.astype(np.uint8).reshape(-1, 1) >> np.arange(bits) & 1
    rest = head + np.packbits(lanes.astype(np.uint8).reshape(-1), bitorder="little").tobytes()
    return np.array(zlib.crc32(rest), "<u4").tobytes() + rest


def unpack(payload, step, form):
    """Return the array in a payload."""
    if "compression" in form and len(payload) < step["payload_bytes"]:
        payload = zlib.decompress(payload)
    assert len(payload) == step["payload_bytes"]
    shape = [stop - start for start, stop in step["box"]]
    if "bits" not in form:
        kind = "<f2" if step["wire"] == "float16" else step["dtype"]
        return np.frombuffer(payload, kind).astype(step["dtype"]).reshape(shape)
    assert int.from_bytes(payload[:4], "little") == zlib.crc32(payload[4:])
    kind = np.dtype([(name, code) for name, code in form["head"]])
    head = np.frombuffer(payload[: kind.itemsize], kind)[0]
    packed = np.frombuffer(payload[kind.itemsize :], np.uint8)
    count, bits = int(np.prod(shape)), form["bits"]
    lanes = np.unpackbits(packed, count=count * bits, bitorder="little").reshape(count, bits)
    codes = (lanes.astype(np.int32) << np.arange(bits)).sum(axis=1).astype(np.float32)
    if "scale" in kind.names:
        values = codes * head["scale"] + head["offset"]
    else:
        values = (codes - np.float32(step["zero"])) * np.float32(step["scale"])
    return values.astype(step["dtype"]).reshape(shape)


class Parts:
    """All devices of an exported plan."""

    def __init__(self, folder, inputs):
        self.manifest = json.loads((folder / "manifest.json").read_text())
        self.held = {device: [] for device in self.manifest["devices"]}
        self.inputs, self.sent, self.sessions = inputs, {}, {}
        options = onnxruntime.SessionOptions()
        for key, value in self.manifest["session_options"].items():
            options.add_session_config_entry(key, value)
        for fragment in self.manifest["fragments"]:
            path = str(folder / fragment["file"])
            self.sessions[fragment["file"]] = onnxruntime.InferenceSession(path, options)

    def run(self):
        """Return the outputs, by name."""
        waiting = {device: list(steps) for device, steps in self.manifest["devices"].items()}
        while any(waiting.values()):
            before = sum(map(len, waiting.values()))
            for device, steps in waiting.items():
                while steps and self.do(device, steps[0]):
                    steps.pop(0)
            assert sum(map(len, waiting.values())) < before
        home = self.manifest["requester"]
        return {
            out["name"]: self.take(home, out["name"], [[0, n] for n in out["shape"]])
            for out in self.manifest["outputs"]
        }

    def do(self, device, step):
        """Do a step of a device, unless it has to wait; return whether it is done."""
        held, what = self.held[device], step["do"]
        if what == "feed":
            array = self.inputs[step["tensor"]]
            held.append((step["tensor"], [[0, n] for n in array.shape], array))
        elif what == "compute":
            feeds = {
                one["name"]: self.take(device, one["tensor"], one["box"]) for one in step["inputs"]
            }
            session = self.sessions[step["fragment"]]
            arrays = session.run([one["name"] for one in step["outputs"]], feeds)
            for one, array in zip(step["outputs"], arrays, strict=True):
                held.append((one["tensor"], one["box"], array))
        else:
            ends = (device, step["to"]) if what == "send" else (step["from"], device)
            key = (*ends, step["tensor"], str(step["box"]))
            form = self.manifest["wires"][step["wire"]]
            if what == "send":
                piece = self.take(device, step["tensor"], step["box"])
                self.sent[key] = pack(piece, step, form)
            elif key not in self.sent:
                return False
            else:
                array = unpack(self.sent[key], step, form)
                held.append((step["tensor"], step["box"], array))
        return True

    def take(self, device, tensor, box):
        """Return a box of a tensor, put together from what the device holds."""
        pieces = [(where, array) for name, where, array in self.held[device] if name == tensor]
        whole = np.empty([stop - start for start, stop in box], pieces[0][1].dtype)
        for where, array in pieces:
            common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(where, box, strict=True)]
            if all(a < b for a, b in common):
                target = tuple(
                    slice(a - s[0], b - s[0]) for (a, b), s in zip(common, box, strict=True)
                )
                source = tuple(
                    slice(a - s[0], b - s[0]) for (a, b), s in zip(common, where, strict=True)
                )
                whole[target] = array[source]
        return whole


if __name__ == "__main__":
    _, parts, given, made = sys.argv
    np.savez(made, **Parts(Path(parts), dict(np.load(given))).run())
