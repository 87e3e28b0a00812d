"""Dates of certificates, made with OpenSSL."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from partita.errors import ClusterError
from partita.fabric.certificates import check_dates


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs OpenSSL")
@pytest.mark.parametrize("days", [2, -1])
def test_an_expired_certificate_is_said(tmp_path: Path, days: int) -> None:
    """One that is over is named with its file; a valid one passes."""
    where = f"-keyout {tmp_path}/a.key -subj /CN=a"
    for line in (
        f"req -x509 -newkey rsa:2048 -nodes -days 2 {where} -out {tmp_path}/a.pem",
        f"req -newkey rsa:2048 -nodes -keyout {tmp_path}/d.key -subj /CN=d -out {tmp_path}/d.csr",
        f"x509 -req -in {tmp_path}/d.csr -CA {tmp_path}/a.pem -CAkey {tmp_path}/a.key"
        f" -CAcreateserial -days {days} -out {tmp_path}/d.pem",
    ):
        subprocess.run(["openssl", *line.split()], check=True, capture_output=True)
    files = [str(tmp_path / name) for name in ("a.pem", "d.pem", "d.key")]
    if days > 0:
        check_dates(*files)
        return
    with pytest.raises(ClusterError, match=r"d\.pem' or its authority has expired"):
        check_dates(*files)
