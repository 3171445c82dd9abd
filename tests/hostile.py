"""What somebody might type, link to or upload who wants to break the app: one collection for every way in.

Whatever would run a script, or fetch something, sets `window.headlightRan` or asks for evil.example.
"""

import signal
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

RAN = "headlightRan"
_SCRIPT = f"window.{RAN}=1"

TEXTS = {
    "script": f"<script>{_SCRIPT}</script>",
    "image": f'<img src=x onerror="{_SCRIPT}"><img src="https://evil.example/a.png">',
    "drawing": f"<svg/onload={_SCRIPT}><style>*{{display:none}}</style>",
    "frame": f'<iframe srcdoc="<script>parent.{RAN}=1</script>"></iframe>',
    "out of an attribute": f"\"'><b autofocus tabindex=1 onfocus={_SCRIPT}>",
    "Plotly's markup": f'<a href="javascript:{_SCRIPT}">a</a><br><sub>b</sub>%{{customdata}}%{{x:.3f}}',
    "Markdown links": f"[a](javascript:{_SCRIPT}) ![b](https://evil.example/b.png) <https://evil.example> https://evil.example",
    "Markdown": "# a\n* b\n| c | d |\n| - | - |\n```\n~~e~~ **f** :red[g] :material/home: :smile: [h][i]\n\n[i]: https://evil.example",
    "LaTeX": r"$\href{javascript:alert(1)}{x}$ $$\def\a{\a\a}\a$$ \(\unknown\) $",
    "templates": "{{7*7}} ${7*7} #{7*7} <%= 7*7 %> {% raw %} {0.__class__} %(a)s %n",
    "right to left": "\u202eevil\u202c שלום \u2067עולם\u2069 مرحبا ab\u200f",
    "zero width": "a\u200bb\u200c\u200d\u2060\ufeffc\u00ad\u034f",
    "NUL and controls": "a\x00b\x01\x07\x08\x0b\x0c\x1b[31m\x7f\x85\u2028\u2029c",
    "joined emoji": "👩‍👩‍👧‍👦🏳️‍🌈👍🏿🇩🇪🧑🏽‍🚀" * 3,
    "stacked marks": "Z" + "\u0301\u0327\u0489" * 60 + "a",
    "outside the first plane": "𝔘𝔫𝔦 𐍈 \U0010ffff \ue000 \ufffe",
    "one long word": "supercalifragilistic" * 60,
    "many short words": "a " * 700,
    "only blanks": " \t\n\r\u00a0\u3000",
    "only special tokens": "[CLS][SEP][MASK][PAD]<|im_start|><|endoftext|><s></s>",
    "a path": "../../../../etc/passwd C:\\Windows\\win.ini \\\\host\\share file:///etc/passwd",
    "a database": "'; DROP TABLE heads; -- \" OR 1=1",
    "numbers": "NaN -Infinity 1e309 0x1F ٣ ½ 1_000",
    "JSON": '{"__proto__": {"a": 1}, "$ref": "#"} [[[[[[',
    "the separators of links": "a&b=c#d?e+f%20%zz;g",
}
MARKUP = ("script", "image", "drawing", "frame", "out of an attribute", "Plotly's markup", "Markdown links", "Markdown")

LONG = 10_000  # characters
# What a long text is made of. A parser that goes back over what it has read takes the square or the cube of its length.
AGAIN = (
    *(" ", "\t", "\n", "\u00a0", "a", "ab ", "A1-", "9", "0.", "1 ", "1,", "1-2,", "1>2 ", "1>2=.1 ", "at ", " over "),
    *".-,;:=><&+_/@$*",
    *("<b>", "<br>", "&#9", "%3", "://", "www."),
    *("#", "`", "'", '"', '\\"', "\\", "\\u00", "(", "((a", "[", "{", "{{", "{%", "[UNK]", "##a", "<|im_start|>", "w'"),
    *("\u0301", "\u0301\u0327", "😀\u200d", "🇩", "\u202e", "\x00", "東", "İ", "ﷺ"),
)


def long_texts(*beginnings: str) -> Iterator[str]:
    """LONG characters each, after every beginning: one thing again and again, with an end that comes as a surprise."""
    for beginning in beginnings or ("",):
        for again in AGAIN:
            half = again * (LONG // 2 // len(again))
            yield f"{beginning}{half}at{half}!"
            yield f'{beginning}{half}{half}"x'


class TooSlow(BaseException):
    """No Exception, which a parser might catch."""


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """Raises TooSlow once this process has computed for so long, also within a regular expression. Main thread only."""

    def ring(*_: object) -> None:
        raise TooSlow(f"more than {seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# Values in an address, as they stand there.
VALUES = {
    "nothing": "",
    "a huge number": "9" * 400,
    "more digits than Python reads": "9" * 5000,
    "beyond floats": "1e999",
    "not a number": "nan",
    "below zero": "-1",
    "a fraction": "0.5",
    "other digits": "%D9%A3",
    "broken percents": "%zz%%%E0%80%FF",
    "half a character": "%ED%A0%80",
    "NUL": "%00",
    "ten kilobytes": "x" * 10_000,
    "markup": "%3Cimg%20src%3Dx%20onerror%3D%22window.headlightRan%3D1%22%3E%5Ba%5D(javascript:alert(1))",
    "JSON": "%5B%5B%7B%22__proto__%22:1%7D%5D%5D",
    "a path": "..%2F..%2F..%2Fetc%2Fpasswd",
    "dots and hyphens": "1.2.3-4--5",
}


def png(width: int, height: int) -> bytes:
    """A picture that claims this size and holds one row."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 25)) + chunk(b"IEND", b"")
