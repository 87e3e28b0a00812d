"""Streams: inputs that keep coming from folders, videos, cameras and pipes, and their answers."""

from partita.streams.items import Content, Item, Source
from partita.streams.prepare import Prepare, Preparer
from partita.streams.sinks import (
    MOST_NUMBERS,
    Describe,
    JsonLines,
    NpyFolder,
    Sink,
    TopClasses,
    UserAnswer,
    is_lines,
    open_sink,
)
from partita.streams.source import find_source
from partita.streams.stream import Stream, StreamAnswer, StreamCounts, StreamOptions, stream

__all__ = [
    "MOST_NUMBERS",
    "Content",
    "Describe",
    "Item",
    "JsonLines",
    "NpyFolder",
    "Prepare",
    "Preparer",
    "Sink",
    "Source",
    "Stream",
    "StreamAnswer",
    "StreamCounts",
    "StreamOptions",
    "TopClasses",
    "UserAnswer",
    "find_source",
    "is_lines",
    "open_sink",
    "stream",
]
