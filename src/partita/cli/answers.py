"""Answers of a run that are looked at after it: a few in memory, the others in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload

import numpy as np

from partita.errors import InputError
from partita.files import pack_arrays
from partita.quantisation.samples import Feeds

#: Answers up to here stay in memory, so that short runs touch no disk. Not tuned.
HELD_BYTES = 16 * 2**20
#: Where an answer's array lies in the file, its type and its shape; or the array itself.
_Place = tuple[int, np.dtype[Any], tuple[int, ...]]


class KeptAnswers(Sequence[Feeds]):
    """The answers of a run, in order: memory stays bounded however many there are.

    Args:
        folder: Where the file lies, which has no name and is gone with the process; the system's
            folder for temporary files by default.
        held_bytes: Most bytes of answers in memory.
    """

    def __init__(self, folder: Path | None = None, held_bytes: int = HELD_BYTES) -> None:
        self._folder, self._room_bytes = folder, held_bytes
        self._held: list[Feeds] = []
        self._places: list[dict[str, _Place]] = []
        self._file: Any = None

    def append(self, answer: Feeds) -> None:
        """Keep one more answer.

        Raises:
            InputError: The file cannot be written.
        """
        size = sum(array.nbytes for array in answer.values())
        if not self._places and size <= self._room_bytes:
            self._room_bytes -= size
            self._held.append(answer)
            return
        try:
            self._places.append({name: self._write(array) for name, array in answer.items()})
        except OSError as error:
            where = self._folder or tempfile.gettempdir()
            raise InputError(
                f"Answer {len(self)} cannot be kept in '{where}': {error.strerror}. Make room, or"
                " ask for fewer requests.",
                subject=str(where),
            ) from error

    def _write(self, array: np.ndarray[Any, Any]) -> _Place:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        place = self._file.tell(), array.dtype, array.shape
        self._file.write(np.ascontiguousarray(array).data)
        return place

    def _read(self, place: _Place) -> np.ndarray[Any, Any]:
        offset, dtype, shape = place
        array = np.empty(shape, dtype)
        self._file.seek(offset)
        self._file.readinto(array.reshape(-1).view(np.uint8))
        return array

    def __len__(self) -> int:
        return len(self._held) + len(self._places)

    @overload
    def __getitem__(self, index: int) -> Feeds: ...

    @overload
    def __getitem__(self, index: slice) -> list[Feeds]: ...

    def __getitem__(self, index: int | slice) -> Feeds | list[Feeds]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        if number < len(self._held):
            return self._held[number]
        places = self._places[number - len(self._held)]
        return {name: self._read(place) for name, place in places.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()


class PackedAnswers(Mapping[str, bytes]):
    """The ``.npz`` file of each answer by its name, packed when it is asked for."""

    def __init__(self, answers: Sequence[Feeds]) -> None:
        self._answers = answers
        self._numbers = {f"output-{n:05d}.npz": n for n in range(len(answers))}

    def __getitem__(self, name: str) -> bytes:
        return pack_arrays(self._answers[self._numbers[name]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)
