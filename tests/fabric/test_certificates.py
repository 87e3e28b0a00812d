"""Credentials that cannot work are refused when they are read; made with OpenSSL."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from partita.errors import ClusterError
from partita.fabric import TlsOptions, ZenohOptions, check_network, find_misnamed
from tests.fabric.certificates import needs_openssl, sign

pytestmark = needs_openssl


def _check(tls: TlsOptions) -> None:
    check_network(ZenohOptions("nano", tls=tls))


@pytest.fixture
def ours(tmp_path: Path) -> TlsOptions:
    """Good credentials of a device at 127.0.0.1."""
    return sign(tmp_path, "ours", "nano", "IP:127.0.0.1")


def test_an_expired_certificate_is_said(tmp_path: Path) -> None:
    """One that is over is named with its file."""
    with pytest.raises(ClusterError, match=r"nano\.pem' or its authority has expired"):
        _check(sign(tmp_path, "ours", "nano", "IP:127.0.0.1", days=-1))


def test_a_stranger_to_its_own_authority(tmp_path: Path, ours: TlsOptions) -> None:
    """A certificate that another authority signed is refused; a good one passes."""
    _check(ours)
    theirs = sign(tmp_path, "theirs", "nano", "IP:127.0.0.1")
    with pytest.raises(ClusterError, match="not signed by the authority"):
        _check(replace(theirs, authority=ours.authority))


def test_a_certificate_without_extensions(tmp_path: Path, ours: TlsOptions) -> None:
    """OpenSSL writes version 1 where none is asked for, and calls it good; peers refuse it."""
    ca, own = ours.authority.removesuffix(".pem"), tmp_path / "old"
    for line in (
        f"req -newkey rsa:2048 -nodes -keyout {own}.key -subj /CN=leader -out {own}.csr",
        f"x509 -req -in {own}.csr -CA {ca}.pem -CAkey {ca}.key -CAcreateserial -out {own}.pem",
        f"verify -CAfile {ca}.pem {own}.pem",
    ):
        subprocess.run(["openssl", *line.split()], check=True, capture_output=True)
    shown = subprocess.run(
        ["openssl", "x509", "-in", f"{own}.pem", "-noout", "-text"], capture_output=True, check=True
    )
    if b"Version: 1" not in shown.stdout:
        pytest.skip("this OpenSSL writes version 3 by itself")
    with pytest.raises(ClusterError, match=r"old\.pem' is of X\.509 version 1, .* -addext"):
        _check(TlsOptions(ours.authority, f"{own}.pem", f"{own}.key"))


def test_files_in_each_others_place(tmp_path: Path, ours: TlsOptions) -> None:
    """Which file holds what else is said, not OpenSSL's own words."""
    swapped = replace(ours, certificate=ours.key, key=ours.certificate)
    with pytest.raises(ClusterError, match=r"nano\.key' holds a private key, needed is a cert"):
        _check(swapped)
    with pytest.raises(ClusterError, match=r"ours\.pem' holds a certificate, needed is a private"):
        _check(replace(ours, key=ours.authority))
    box = sign(tmp_path, "ours", "box", "IP:127.0.0.1")
    with pytest.raises(ClusterError, match=r"box\.key' is not the key of '.*nano\.pem'"):
        _check(replace(ours, key=box.key))
    with pytest.raises(ClusterError, match="cannot be read"):
        _check(replace(ours, key=str(tmp_path / "none.key")))


def test_a_key_with_a_password(tmp_path: Path, ours: TlsOptions) -> None:
    """It is said; nobody is asked for the password."""
    locked = tmp_path / "locked.key"
    line = f"pkey -in {ours.key} -aes256 -passout pass:secret -out {locked}"
    subprocess.run(["openssl", *line.split()], check=True, capture_output=True)
    with pytest.raises(ClusterError, match="the key is encrypted"):
        _check(replace(ours, key=str(locked)))


def test_an_address_that_is_not_in_the_certificate(ours: TlsOptions) -> None:
    """It is found by its host; all interfaces, plain TCP and names that nobody checks are none."""
    listen = (
        "tls/127.0.0.1:7447",
        "tls/192.0.2.9:7447",
        "quic/[2001:db8::1]:7447",
        "tls/0.0.0.0:7447",
        "tcp/127.0.0.1:7450",
        "tls/nano.example:7447",
    )
    options = ZenohOptions("nano", listen=listen, tls=ours)
    assert find_misnamed(options) == [listen[1], listen[2], listen[5]]
    assert not find_misnamed(replace(options, tls=replace(ours, verify_name=False)))
    assert not find_misnamed(replace(options, tls=None))
