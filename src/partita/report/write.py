"""Writes a report's files: each appears whole, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from partita.errors import InputError
from partita.files import write_folder, write_whole
from partita.report.bars import chart_comparison
from partita.report.bundle import Contender, ReportBundle
from partita.report.page import find_reference, write_page
from partita.report.picture import paint_bars, paint_timeline
from partita.report.timeline import lay_out
from partita.report.trace import dump_trace


@dataclass(frozen=True)
class ReportFiles:
    """Where the parts of a report lie; ``chart`` only where planners were compared."""

    page: Path
    timeline: Path
    trace: Path
    chart: Path | None = None


def write_report(out_dir: str | Path, bundle: ReportBundle) -> ReportFiles:
    """Write ``index.html``, ``timeline.png`` and ``trace.json``; with a comparison ``compare.png``.

    Args:
        out_dir: Folder, made where it is missing; older files of these names are replaced.

    Raises:
        InputError: A file cannot be written.
    """
    folder = Path(out_dir)
    runs = (bundle.predicted, bundle.measured)
    files = ReportFiles(
        folder / "index.html",
        folder / "timeline.png",
        folder / "trace.json",
        folder / "compare.png" if bundle.comparison else None,
    )
    contents = {
        files.timeline: paint_timeline(lay_out(*runs), bundle.title),
        files.trace: dump_trace(*runs),
        files.page: write_page(bundle).encode("utf-8"),
    }
    if files.chart:
        chart = chart_comparison(bundle.comparison, find_reference(bundle))
        contents[files.chart] = paint_bars(chart, bundle.title)
    try:
        write_folder(folder, {path.name: data for path, data in contents.items()})
    except OSError as error:
        raise _refuse("Report", folder, error) from error
    return files


def write_chart(
    path: str | Path,
    contenders: Sequence[Contender],
    *,
    title: str = "Latency by planner",
    reference: tuple[float, str] | None = None,
) -> None:
    """Write the comparison of planners as a PNG picture.

    Args:
        title: Heading of the picture.
        reference: Latency in seconds that all are measured against, and its name.

    Raises:
        InputError: The file cannot be written.
    """
    write_file(Path(path), paint_bars(chart_comparison(contenders, reference), title))


def write_trace(path: str | Path, bundle: ReportBundle) -> None:
    """Write the trace of a run alone.

    Raises:
        InputError: The file cannot be written.
    """
    write_file(Path(path), dump_trace(bundle.predicted, bundle.measured))


def write_file(path: Path, data: bytes) -> None:
    """Write a file in one step.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise _refuse("File", path, error) from error


def _refuse(what: str, path: Path, error: OSError) -> InputError:
    message = f"{what} '{path}' cannot be written: {error.strerror}. Choose another place."
    return InputError(message, subject=str(path))
