"""Numbers as pages write them, read back."""

_LOWERED = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789")

WRITTEN = r"−?\d[\d.,]*(?:×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"  # a pattern of `re`


def number(words: str) -> float:
    """Read "−0.5", "3.6×10⁻⁷" or "77.3%"."""
    plain = words.translate(_LOWERED).replace("×10", "e").replace(",", "")
    return float(plain[:-1]) / 100 if plain.endswith("%") else float(plain)
