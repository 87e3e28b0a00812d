"""The demo's answer as files: the annotated photo, and the report of the run."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from partita.demo.annotate import annotate_photo, find_bands
from partita.demo.result import DemoResult, texts_of
from partita.planners.result import is_worth
from partita.report import Checked, Picture, ReportBundle, ReportFiles, write_report
from partita.report.write import write_file
from partita.units import format_bytes

PHOTO_FILE = "photo.png"


@dataclass(frozen=True)
class DemoFiles:
    """Where the demo's files lie.

    Attributes:
        photo: The photo with frames, texts and who computed which rows.
        report: Page, timeline and trace of the divided run.
    """

    photo: Path
    report: ReportFiles


def save_demo(result: DemoResult, folder: Path) -> DemoFiles:
    """Write ``photo.png`` and the run's report to ``folder``, made where it is missing.

    Raises:
        InputError: A file cannot be written.
    """
    photo = annotate_photo(result.pixels, result.read, find_bands(result.divided.plan))
    buffer = io.BytesIO()
    photo.save(buffer, format="PNG")
    path = folder / PHOTO_FILE
    files = write_report(folder, make_bundle(result, buffer.getvalue()))
    write_file(path, buffer.getvalue())
    return DemoFiles(path, files)


def make_bundle(result: DemoResult, photo: bytes) -> ReportBundle:
    """The report's contents; the best single device is shown as measured.

    Args:
        photo: The annotated photo, as PNG.
    """
    divided, single = result.divided, result.single
    runs = len(divided.measured.latencies_s)
    texts = ", ".join(texts_of(result.read)) or "nothing"
    return ReportBundle(
        title="Reading a number plate",
        plan=divided.plan,
        predicted=divided.predicted,
        measured=divided.measured,
        checked=Checked(result.max_difference, result.max_magnitude, runs, result.is_exact),
        lower_bound_s=result.lower_bound_s,
        best_single_s=single.measured_s,
        best_single_device=", ".join(single.devices),
        worth_splitting=is_worth(single.predicted_s, divided.predicted_s),
        pictures=(
            Picture(
                "What was read",
                photo,
                f"The photo, what was read from it ({texts}), and beside it which device"
                " computed which rows.",
            ),
        ),
        facts=(
            ("read from the picture", texts),
            ("bytes moved per photo", format_bytes(divided.moved_bytes)),
        ),
    )
