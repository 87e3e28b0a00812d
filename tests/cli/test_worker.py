"""What ``partita worker`` makes of its flags."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from partita.cli.actions import worker as action
from partita.fabric import ZenohOptions
from partita.worker import WorkerOptions
from tests.cli.conftest import Ask

NETWORK = ZenohOptions("w", "lab", listen=("tcp/127.0.0.1:7447",), role="worker")
LIMITS = (
    "--plans 2 --lanes 9 --calls 3 --senders 4 --inbound 10MB --loaders 5 --quota 2GB --memory 3GB"
)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", WorkerOptions(NETWORK)),
        (
            LIMITS,
            WorkerOptions(
                ZenohOptions(
                    "w",
                    "lab",
                    listen=NETWORK.listen,
                    inbound_bytes=10_000_000,
                    max_senders=4,
                    max_calls=3,
                    role="worker",
                ),
                max_plans=2,
                max_lanes=9,
                loaders=5,
                quota_bytes=2 * 10**9,
                memory_limit_bytes=3 * 10**9,
            ),
        ),
    ],
    ids=["none", "limits"],
)
def test_flags_are_options(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, words: str, options: WorkerOptions
) -> None:
    """Each flag sets its own; where none is given, the command's defaults are the worker's."""
    served: list[WorkerOptions] = []
    monkeypatch.setattr(action, "serve", lambda options, **_: served.append(options))
    assert ask("worker", "--name", "w", *words.split()).code == 0
    assert served == [options]


@pytest.mark.parametrize(
    ("words", "told"), [((), ["tells"]), (("-q",), []), (("--debug",), ["tells"])]
)
def test_what_a_worker_tells_is_on_stderr_unless_quiet(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: list[str]
) -> None:
    """Once, and nothing of it after the command."""
    log = logging.getLogger("partita.worker.serve")
    monkeypatch.setattr(action, "run_worker", lambda options: log.info("tells"))
    answer = ask("worker", "--name", "w", *words)
    assert (answer.code, answer.err.splitlines()) == (0, told)
    log.info("is silent")
    assert not log.isEnabledFor(logging.INFO)


def test_log_as_json(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is one object, whatever is in the message, and has its failure's trace."""

    def tell(options: WorkerOptions) -> None:
        log = logging.getLogger("partita.worker.serve")
        log.warning('two\nlines and "%s"', "quotes")
        try:
            raise ValueError("so")
        except ValueError:
            log.exception("failed")

    monkeypatch.setattr(action, "run_worker", tell)
    answer = ask("worker", "--name", "w", "--log-format", "json")
    first, second = (json.loads(line) for line in answer.err.splitlines())
    assert (first["level"], first["logger"]) == ("warning", "partita.worker.serve")
    assert first["message"] == 'two\nlines and "quotes"'
    assert datetime.fromisoformat(first["time"]).utcoffset() == timedelta(0)
    assert "ValueError: so" in second["trace"]
    done = ask("worker", "--name", "w", "--log-format", "xml")
    assert (done.code, "--log-format" in done.message) == (2, True)


def test_credentials_are_given_together(ask: Ask, folder: Path) -> None:
    """Those that are missing are named, and so is one that is no file."""
    (folder / "a.pem").touch()
    done = ask("worker", "--name", "w", "--authority", "a.pem", "--key", "a.pem")
    assert (done.code, "--certificate is not given" in done.err) == (2, True)
    done = ask("worker", "--name", "w", "--authority", "a.pem")
    assert "--certificate and --key are not given" in done.err
    words = ("--authority", "a.pem", "--key", "a.pem", "--certificate", "none.pem")
    done = ask("worker", "--name", "w", *words)
    assert "--certificate 'none.pem' cannot be used: No such file" in done.err
