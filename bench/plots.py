"""Bar charts as SVG, written by hand: without a library, and readable on both light and dark pages."""

import math
from collections.abc import Mapping
from xml.sax.saxutils import escape

_ROW, _LEFT, _WIDTH, _RIGHT, _TOP = 24, 150, 430, 120, 46
_OURS, _LIMIT, _PEER = "#2563eb", "#64748b", "#d97706"
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1e293b}.t{font-weight:600}.u{font-size:11px;fill:#64748b}"
    "@media(prefers-color-scheme:dark){text{fill:#e2e8f0}.u{fill:#94a3b8}}"
)


def bars(title: str, unit: str, values: Mapping[str, float], *, log: bool = True) -> str:
    """Return one bar for each contender, the best first; the scale is logarithmic by default."""
    ordered = sorted(values.items(), key=lambda item: item[1], reverse=not log)
    low, high = min(values.values()), max(values.values())
    height = _TOP + _ROW * len(ordered) + 12
    scale = "logarithmic scale" if log else "linear scale"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + _RIGHT} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<text class="t" x="10" y="20">{escape(title)}</text>',
        f'<text class="u" x="10" y="37">{escape(unit)}, {scale}</text>',
    ]
    for at, (name, value) in enumerate(ordered):
        y = _TOP + at * _ROW
        length = _length(value, low, high, log=log)
        colour = {"ours": _OURS, "limit": _LIMIT}.get(name, _PEER)
        lines += [
            f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{y + 2}" width="{length:.1f}" height="{_ROW - 8}" rx="2" fill="{colour}"/>',
            f'<text x="{_LEFT + length + 6:.1f}" y="{y + 14}">{shown(value)}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _length(value: float, low: float, high: float, *, log: bool) -> float:
    if not log:
        return max(1.0, value / high * _WIDTH)
    if high <= low:
        return _WIDTH
    # The smallest value has a bar too: a tenth of the width.
    return _WIDTH * (0.1 + 0.9 * math.log(value / low) / math.log(high / low))


def shown(value: float) -> str:
    """Return a figure with three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
