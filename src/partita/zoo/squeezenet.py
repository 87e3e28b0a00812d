"""SqueezeNet 1.0 (Iandola et al. 2016, table 1)."""

from __future__ import annotations

from partita.zoo.builder import Builder

#: Squeezed channels and channels of each expansion of fire modules 2 to 9.
_FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
_POOL_BEHIND = (4, 8)


def add_squeezenet(builder: Builder, x: str) -> str:
    """Add SqueezeNet behind image ``x`` (N, 3, H, W); return the logits (N, 1000)."""
    x = builder.relu(builder.conv(x, "conv1", 96, kernel=7, stride=2, pad=0, bias=True), "relu1")
    x = builder.max_pool(x, "pool1", kernel=3, stride=2, ceil=True)
    for number, (squeezed, expanded) in enumerate(_FIRES, start=2):
        x = _add_fire(builder, x, f"fire{number}", squeezed, expanded)
        if number in _POOL_BEHIND:
            x = builder.max_pool(x, f"pool{number}", kernel=3, stride=2, ceil=True)
    x = builder.relu(builder.conv(x, "conv10", 1000, kernel=1, bias=True), "relu10")
    return builder.flatten(builder.mean(x, "avgpool"), "flatten")


def _add_fire(builder: Builder, x: str, name: str, squeezed: int, expanded: int) -> str:
    x = builder.relu(builder.conv(x, f"{name}.squeeze", squeezed, kernel=1, bias=True), f"{name}.s")
    parts = []
    for kernel in (1, 3):
        y = builder.conv(x, f"{name}.expand{kernel}", expanded, kernel=kernel, bias=True)
        parts.append(builder.relu(y, f"{name}.e{kernel}"))
    return builder.concat(parts, f"{name}.concat")
