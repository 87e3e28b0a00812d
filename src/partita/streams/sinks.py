"""Where answers are written, each as soon as it is there: JSON lines, or a folder of arrays.

What is written says which inputs have answers, so that a second run goes on from there.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from partita.errors import InputError, PartitaError, first_line, name_error
from partita.files import make_folder, pack_arrays, write_whole
from partita.quantisation.samples import Feeds
from partita.streams.items import Content
from partita.streams.stream import StreamAnswer

#: Endings of files of JSON lines.
_LINES = (".jsonl", ".ndjson")
#: Numbers of an answer that a line holds in full: more is for arrays.
MOST_NUMBERS = 4096

#: What a line says of an answer beside the input's name, by key.
Describe = Callable[[StreamAnswer], Mapping[str, Any]]


class Sink(Protocol):
    """Where answers are written.

    Attributes:
        written: Names of the inputs that have answers there.
    """

    @property
    def written(self) -> Collection[str]:
        """Names of inputs that had answers there from the beginning."""

    def write(self, answer: StreamAnswer) -> None:
        """Write one answer, so that it stays whatever happens next.

        Raises:
            InputError: It cannot be written.
        """

    def close(self) -> None:
        """Write no more."""


def in_full(answer: StreamAnswer) -> dict[str, Any]:
    """All numbers of an answer."""
    return {"outputs": {name: array.tolist() for name, array in answer.outputs.items()}}


class TopClasses:
    """The likeliest classes of an answer that is a score for each, the best first."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __call__(self, answer: StreamAnswer) -> dict[str, Any]:
        """Their numbers and scores."""
        (scores,) = (array.reshape(-1) for array in answer.outputs.values())
        best = np.argsort(-scores, kind="stable")[: self._count]
        return {"classes": [{"class": int(n), "score": float(scores[n])} for n in best]}


class UserAnswer:
    """What a user's function says of what an input holds, and of the model's outputs by name."""

    def __init__(self, function: Callable[[Content, Feeds], Any]) -> None:
        self._function = function

    def __call__(self, answer: StreamAnswer) -> dict[str, Any]:
        """What it returns.

        Raises:
            InputError: It fails.
        """
        try:
            return {"answer": self._function(answer.content, answer.outputs)}
        except PartitaError:
            raise
        except Exception as error:
            raise InputError(
                f"The answer to '{answer.name}' cannot be described: {name_error(error)}.",
                subject=answer.name,
            ) from error


class JsonLines:
    """A line per answer: the input's name and what ``describe`` says; with ``-`` on stdout.

    A line that was not finished when its writer ended is cut off.

    Raises:
        InputError: The file holds something else, or cannot be written.
    """

    def __init__(self, text: str, describe: Describe = in_full) -> None:
        self._text = text
        self._describe = describe
        self.written: set[str] = set()
        self._file: io.FileIO | None = None
        if text == "-":
            return
        try:
            if Path(text).exists():
                self._read_written()
            self._file = io.FileIO(text, "a")
        except OSError as error:
            raise self._refuse(error) from error

    def write(self, answer: StreamAnswer) -> None:
        """Write a line; see :class:`Sink`."""
        try:
            described = {"name": answer.name, **self._describe(answer)}
            line = msgspec.json.encode(described, enc_hook=_to_plain) + b"\n"
        except TypeError as error:
            raise InputError(
                f"The answer to '{answer.name}' is nothing that JSON holds: {first_line(error)}.",
                subject=answer.name,
            ) from error
        try:
            self._put(line)
        except BrokenPipeError:  # who reads has enough
            raise
        except OSError as error:
            raise self._refuse(error) from error

    def _put(self, line: bytes) -> None:
        """Write a whole line; a disk that is almost full takes a part, and refuses the next."""
        if self._file is None:
            sys.stdout.write(line.decode())
            sys.stdout.flush()
            return
        left = memoryview(line)
        while left:
            left = left[self._file.write(left) :]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _read_written(self) -> None:
        whole = 0
        with open(self._text, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    name = json.loads(line)["name"]
                except (ValueError, TypeError, KeyError, RecursionError):
                    name = None
                if not isinstance(name, str):
                    raise InputError(
                        f"File '{self._text}' is no sink: line {number} is no answer of a stream."
                        " Give the sink another place.",
                        subject=self._text,
                    )
                self.written.add(name)
                whole += len(line)
        os.truncate(self._text, whole)

    def _refuse(self, error: OSError) -> InputError:
        what = "Standard output" if self._text == "-" else f"File '{self._text}'"
        return InputError(f"{what} cannot be written: {error.strerror}.", subject=self._text)


def _to_plain(value: Any) -> Any:
    """What JSON has no word for, of NumPy."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__}")


class NpyFolder:
    """A file per answer under the input's name: ``.npy``, or ``.npz`` of several outputs.

    Raises:
        InputError: The folder cannot be made or written.
    """

    def __init__(self, text: str) -> None:
        self._folder = Path(text)
        try:
            make_folder(self._folder)
            names = os.listdir(self._folder)
        except OSError as error:
            raise InputError(
                f"Sink '{text}' cannot be written to as a folder: {error.strerror}.", subject=text
            ) from error
        self.written = {name[:-4] for name in names if name.endswith((".npy", ".npz"))}

    def write(self, answer: StreamAnswer) -> None:
        """Write a file, whole or not at all; see :class:`Sink`."""
        if os.sep in answer.name:
            raise InputError(
                f"The answer to '{answer.name}' is no file: its name holds '{os.sep}'.",
                subject=answer.name,
            )
        if len(answer.outputs) == 1:
            packed, (array,) = io.BytesIO(), answer.outputs.values()
            np.lib.format.write_array(packed, np.asarray(array), allow_pickle=False)
            path, data = self._folder / f"{answer.name}.npy", packed.getvalue()
        else:
            path, data = self._folder / f"{answer.name}.npz", pack_arrays(answer.outputs)
        try:
            write_whole(path, data)
        except OSError as error:
            raise InputError(
                f"File '{path}' cannot be written: {error.strerror}.", subject=str(path)
            ) from error

    def close(self) -> None:
        """Nothing is left to do."""


def is_lines(text: str) -> bool:
    """Whether a sink is lines of JSON, by its name."""
    path = Path(text)
    return text == "-" or (path.suffix.lower() in _LINES and not path.is_dir())


def open_sink(text: str, describe: Describe | None = None) -> Sink:
    """The sink that a text means: ``-`` for stdout, a file of JSON lines, or a folder of arrays.

    Args:
        describe: What lines say; None for all numbers. Folders hold arrays alone.

    Raises:
        InputError: It cannot be written, or is neither.
    """
    if "\0" in text:
        raise InputError("Sink cannot be written: its name holds a NUL character.", subject=text)
    if is_lines(text):
        return JsonLines(text, describe or in_full)
    if Path(text).suffix and not Path(text).is_dir():
        raise InputError(
            f"Sink '{text}' is of no known kind; allowed: a file that ends in {', '.join(_LINES)}"
            " for lines of JSON, a folder for arrays, - for lines on standard output.",
            subject=text,
        )
    if describe is not None:
        raise InputError(
            f"Sink '{text}' is a folder of arrays: --classes and --answer are for lines of JSON.",
            subject=text,
        )
    return NpyFolder(text)
