"""The live page: one document that needs nothing else, and the answers that it asks for."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from partita.live.snapshot import Scene, Snapshot
from partita.report.markup import Markup, element
from partita.report.palette import write_variables
from partita.report.tables import NOTHING, describe_layers, describe_shares
from partita.units import format_seconds

_TITLE = "Partita"
#: Columns of the list of models, after the model's own.
_COLUMNS = ("state", "images per second", "latency, median", "answered")
#: Seconds between two loads of the list of models: twice as long as rates need to be new.
_AGAIN_S = 2
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
        _frame_table("devices", look="cards"),
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


def write_list(models: Mapping[str, Snapshot | str]) -> str:
    """A page with the state of each model and a link to its page; it loads itself again.

    Args:
        models: By their names, what they do now, or why nobody knows.
    """
    head = element(
        "tr",
        element("th", "model"),
        *(element("th", name, class_="word" if name == "state" else "") for name in _COLUMNS),
    )
    rows = (_write_row(name, now) for name, now in models.items())
    table = element("table", element("thead", head), element("tbody", *rows), class_="cards")
    body = element("body", element("h1", _TITLE), element("div", table, class_="scroll"))
    return _write(body, element("meta", http_equiv="refresh", content=str(_AGAIN_S)))


def _write_row(name: str, now: Snapshot | str) -> Markup:
    link = element("td", element("a", name, href=f"{name}/"))
    if isinstance(now, str):
        return element("tr", link, element("td", f"no news: {now}", class_="word bad", colspan="4"))
    if now.down:
        words, look = f"down: {now.down}", "word bad"
    elif away := [view.name for view in now.devices if view.state in ("lost", "silent")]:
        words, look = f"answers, without {', '.join(away)}", "word"
    else:
        words, look = "answers", "word good"
    if now.title:
        link = element("td", element("a", name, href=f"{name}/"), element("small", now.title))
    cells = (
        words,
        NOTHING if now.images_per_s is None else f"{now.images_per_s:.3g}",
        NOTHING if now.p50_s is None else format_seconds(now.p50_s),
        str(now.answers),
    )
    looks = (look, "", "", "")
    columns = zip(cells, _COLUMNS, looks, strict=True)
    shown = (element("td", text, class_=look, data_name=name) for text, name, look in columns)
    return element("tr", link, *shown)


def _write(body: Markup, *more: Markup) -> str:
    style = write_variables() + _read("partita.report", "style.css")
    style += _read("partita.live", "page.css")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        *more,
        element("title", _TITLE),
        element("style", Markup(style)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _frame_table(name: str, *columns: str, look: str = "") -> Markup:
    head = element("thead", element("tr", *(element("th", column) for column in columns)))
    table = element("table", head, element("tbody", ""), id=name, class_=look)
    return element("div", table, class_="scroll")


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
