"""How well one colour is told from another, by WCAG 2.2."""

import re
import tomllib

import numpy as np

from tests.source_files import ROOT

THEME = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())["theme"]
BACKGROUNDS = {mode: THEME[mode]["backgroundColor"] for mode in ("light", "dark")}


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, 0 to 1 (WCAG 2.2)."""
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return float([0.2126, 0.7152, 0.0722] @ np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4))


def contrast(one: str, other: str) -> float:
    """1 to 21; lines and other graphics need 3 (WCAG 2.2, 1.4.11)."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def hexadecimal(colour: str) -> str:
    """rgb(r, g, b), or color(srgb r g b) as a browser may write it, as #rrggbb; its opacity is left out."""
    parts = [float(part) * (255 if "srgb" in colour else 1) for part in re.findall(r"\d[\d.]*(?:e-?\d+)?", colour)]
    return "#" + bytes(round(part) for part in parts[:3]).hex()


def mixed(colour: str, background: str, share: float) -> str:
    """What is seen of a colour with this opacity before a background."""
    parts = [np.frombuffer(bytes.fromhex(one[1:]), np.uint8) for one in (colour, background)]
    return "#" + bytes(np.round(parts[0] * share + parts[1] * (1 - share)).astype(np.uint8)).hex()
