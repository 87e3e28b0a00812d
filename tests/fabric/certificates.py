"""Certificates for tests, made with OpenSSL."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from partita.fabric import TlsOptions

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs OpenSSL")


def sign(folder: Path, authority: str, name: str, subject: str, days: int = 2) -> TlsOptions:
    """A certificate of an authority, both made where they are not there yet."""
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    ca, own = folder / authority, folder / f"{authority}-{name}"
    lines = [
        f"req {key} -keyout {own}.key -subj /CN={name} -out {own}.csr"
        f" -addext subjectAltName={subject}",
        f"x509 -req -in {own}.csr -CA {ca}.pem -CAkey {ca}.key -CAcreateserial -days {days}"
        f" -copy_extensions copy -out {own}.pem",
    ]
    if not ca.with_suffix(".pem").exists():
        lines.insert(0, f"req -x509 {key} -days 2 -keyout {ca}.key -subj /CN={authority}"
                        f" -out {ca}.pem")  # fmt: skip
    for line in lines:
        subprocess.run(["openssl", *line.split()], check=True, capture_output=True)
    return TlsOptions(f"{ca}.pem", f"{own}.pem", f"{own}.key")
