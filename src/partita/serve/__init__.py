"""Models behind HTTP: the Open Inference Protocol v2 in front of sessions on one fleet."""

from partita.serve.app import make_app
from partita.serve.front import Front, ModelSource
from partita.serve.served_model import ServedModel
from partita.serve.server import Server, listen_at, make_server, url_of

__all__ = [
    "Front",
    "ModelSource",
    "ServedModel",
    "Server",
    "listen_at",
    "make_app",
    "make_server",
    "url_of",
]
