"""The live page: one document that needs nothing else, and the answers that it asks for."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from partita.live.snapshot import Scene
from partita.report.markup import Markup, element
from partita.report.palette import write_variables
from partita.report.tables import describe_layers, describe_shares

_TITLE = "Partita"
#: Pages run no script but their own, and load nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"


@lru_cache(maxsize=1)
def write_live_page() -> tuple[str, str]:
    """The page, and the policy under which a browser is to show it: its own script alone runs."""
    script = _read("partita.live", "page.js")
    body = element(
        "body",
        element("header", element("h1", _TITLE, id="title"), element("span", "asking", id="state")),
        element("p", "", id="about"),
        element("dl", "", id="tiles", class_="tiles"),
        element("div", "", id="advice"),
        element("h2", "The plan over the devices"),
        _frame_table("devices"),
        element("h2", "Links", id="links-title"),
        _frame_table("links", "link", "load", "payload"),
        element(
            "section",
            element("h2", "What if"),
            _frame_table("gains", "change", "gain", "no plan gains more than"),
            id="gains-section",
            hidden="hidden",
        ),
        element("h2", "Events"),
        element("ul", "", id="events"),
        element("script", Markup(script)),
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"{POLICY}; connect-src 'self'; script-src 'sha256-{digest}'"
    return _write(body), policy


def write_list(names: Sequence[str]) -> str:
    """A page with a link to the page of each model."""
    links = (element("li", element("a", name, href=f"{name}/")) for name in names)
    return _write(element("body", element("h1", _TITLE), element("ul", *links)))


def _write(body: Markup) -> str:
    style = write_variables() + _read("partita.report", "style.css")
    style += _read("partita.live", "page.css")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", _TITLE),
        element("style", Markup(style)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _frame_table(name: str, *columns: str) -> Markup:
    head = element("thead", element("tr", *(element("th", column) for column in columns)))
    return element("div", element("table", head, element("tbody", ""), id=name), class_="scroll")


def describe_scene(scene: Scene | None) -> dict[str, Any]:
    """What the page shows of a plan: stages, each device's share of them, and what would gain."""
    if scene is None:
        return {"title": _TITLE, "about": "", "stages": [], "gains": []}
    plan = scene.plan
    stages = [
        {
            "name": stage.name,
            "layers": describe_layers(stage.layers),
            "axis": stage.axis.replace("_", " "),
            "shares": describe_shares(stage),
        }
        for stage in plan.stages
    ]
    about = (
        f"Planner {plan.planner}, objective {plan.objective}, at most {plan.in_flight} in flight."
        " Marks in bars are predictions at full load."
    )
    gains = [
        {"name": gain.name, "gain": gain.gain, "most_gain": gain.most_gain} for gain in scene.gains
    ]
    return {"title": scene.title, "about": about, "stages": stages, "gains": gains}
