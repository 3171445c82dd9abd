"""Files that a browser fetches to save a picture: plotly.js, which components cannot reach, letters, and what PDF needs."""

from pathlib import Path

import plotly
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from core.figures.typeface import FILES, faces

HERE = Path(__file__).parent
JSPDF, SVG2PDF = (HERE / "libraries" / f"{name}.min.js" for name in ("jspdf-4.2.1", "svg2pdf-2.8.1"))
LETTERS = [*FILES.values()]
# Another version is another address: a browser may keep each for good.
SCRIPTS = {
    "Plotly": f"sharing/plotly-{plotly.__version__}.min.js",
    "jspdf": f"sharing/{JSPDF.name}",
    "svg2pdf": f"sharing/{SVG2PDF.name}",
}
_SOURCE_SANS = "sharing/source-sans-3.052"
FONTS = [f"{_SOURCE_SANS}/{file.name}" for file in LETTERS]  # for PDF
FACES = f"{_SOURCE_SANS}/faces.css"  # for SVG and PNG
_PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
_HEADERS = {"Cache-Control": "public, max-age=31536000"}


def _route(address: str, file: Path) -> Route:
    kind = "font/ttf" if file in LETTERS else "text/javascript"
    return Route(f"/{address}", lambda _: FileResponse(file, media_type=kind, headers=_HEADERS))


ROUTES = [
    *map(_route, [*SCRIPTS.values(), *FONTS], [_PLOTLY, JSPDF, SVG2PDF, *LETTERS]),
    Route(f"/{FACES}", lambda _: Response(faces(), media_type="text/css", headers=_HEADERS)),
]
