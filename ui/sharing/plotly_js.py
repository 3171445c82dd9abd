"""The script plotly.js, served for saving pictures: components cannot reach the copy that draws the pages."""

from __future__ import annotations

from pathlib import Path

import plotly
from starlette.responses import FileResponse
from starlette.routing import Route

SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
ADDRESS = (
    f"sharing/plotly-{plotly.__version__}.min.js"  # another version is another file: a browser may keep it for good
)
_HEADERS = {"Cache-Control": "public, max-age=31536000"}
ROUTE = Route(f"/{ADDRESS}", lambda _: FileResponse(SCRIPT, media_type="text/javascript", headers=_HEADERS))
