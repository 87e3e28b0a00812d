"""Colours of the pictures: Okabe and Ito's, which people with any colour vision tell apart."""

from __future__ import annotations

from partita.report.timeline import Kind

LIGHT: dict[Kind, str] = {
    "load": "#CC79A7",
    "compute": "#0072B2",
    "receive": "#E69F00",
    "send": "#009E73",
    "deliver": "#7A7A7A",
}
#: The same hues, light enough for a dark page.
DARK: dict[Kind, str] = {
    "load": "#DE9FC2",
    "compute": "#56B4E9",
    "receive": "#F0B93A",
    "send": "#35C49B",
    "deliver": "#A8A8A8",
}


def write_variables() -> str:
    """The colours as CSS variables, for light and dark pages."""

    def block(colours: dict[Kind, str]) -> str:
        return ":root{" + "".join(f"--{kind}:{value};" for kind, value in colours.items()) + "}"

    return f"{block(LIGHT)}@media (prefers-color-scheme:dark){{{block(DARK)}}}"
