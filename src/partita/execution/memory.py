"""Memory that a program's weights take on a device."""

from __future__ import annotations

from partita.program import Load, Program


def weight_bytes(program: Program, device: str) -> int:
    """The bytes of all weights that ``device`` loads.

    A blob that several fragments share counts once where the program knows the blobs' sizes, and
    fragments with the same blobs count once where it knows only their names.
    """
    sizes: dict[object, int] = {}
    for step in program.device(device).steps:
        if not isinstance(step, Load):
            continue
        info = program.fragments[step.fragment]
        if info.blobs and len(info.blob_bytes) == len(info.blobs):
            sizes.update(zip(info.blobs, info.blob_bytes, strict=True))
        else:
            sizes[info.blobs or step.fragment] = info.weight_bytes
    return sum(sizes.values())
