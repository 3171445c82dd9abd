"""The pictures of the README, taken from the running app: `python -m tools.readme_pictures` takes them all again.

Each file holds, in its metadata, the words of the menu and the headings that it shows. tests/test_docs.py compares them with
the app.
"""

import json
from io import BytesIO
from typing import NamedTuple
from urllib.parse import urlencode

from PIL import Image, PngImagePlugin
from playwright.sync_api import sync_playwright

from check import find_browser
from tests.browser.driver import BROWSER_ARGUMENTS, App, Server
from tests.source_files import ROOT
from ui.gallery.views import CARDS
from ui.views.step_by_step.stage_view import PLAYED, SECONDS_A_STAGE

WIDTH = 1280
COLOURS = 128  # of the moving picture, which stays below 1.5 MB
# The entries of the menu, and the headings of the page that are on the screen.
_WORDS = """
() => {
    const isSeen = (element) => {
        const { width, top, bottom } = element.getBoundingClientRect();
        return width > 0 && top >= 0 && bottom <= innerHeight;
    };
    const words = (element) => {
        const copy = element.cloneNode(true);
        for (const icon of copy.querySelectorAll("[data-testid=stIconMaterial], svg")) icon.remove();
        return copy.textContent.trim();
    };
    const said = (of) => [...document.querySelectorAll(of)].filter(isSeen).map(words).filter(Boolean);
    return { menu: said("[data-testid=stTopNav] > div"), headings: said("[data-testid=stMain] :is(h1, h2, h3, h4)") };
}
"""


class Shot(NamedTuple):
    """A picture of the README: the page that it shows, what its address says, and its height in pixels."""

    page: str
    address: dict[str, str]
    height: int


SHOTS = {
    "gallery": Shot("", {}, 590),
    "screenshot": Shot("step_by_step", {}, 900),
    "atlas": Shot("heads", CARDS["induction"].address, 720),
    "what-if": Shot("what_if", {}, 690),
}
PLAYING = Shot("step_by_step", {}, 720)


def taken(app: App, shot: Shot) -> Image.Image:
    """What a visitor sees who opens the address, with its words."""
    app.page.set_viewport_size({"width": WIDTH, "height": shot.height})
    app.open(f"/{shot.page}?{urlencode(shot.address)}")
    return _seen(app)


def played(app: App) -> list[Image.Image]:
    """Each stage of the equation, as it plays."""
    frames = [taken(app, PLAYING)]
    back, on = app.button("One step back"), app.button("One step on")
    back.hover()  # coming near, the browser asks for frames
    for _ in PLAYED:
        app.idle()
        back.click()
    for _ in PLAYED[1:]:
        frames.append(_seen(app))
        on.click()
        app.idle()
    return [*frames[1:], _seen(app)]


def _seen(app: App) -> Image.Image:
    app.idle(calm=1.0)
    picture = Image.open(BytesIO(app.page.screenshot())).convert("RGB")
    picture.info = app.page.evaluate(_WORDS)
    return picture


def save(name: str, frames: list[Image.Image]) -> None:
    """Write a picture, or several one after the other, as docs/<name>.png."""
    words = PngImagePlugin.PngInfo()
    words.add_text("words", json.dumps(frames[0].info))
    first, *others = [frame.quantize(COLOURS) for frame in frames] if len(frames) > 1 else frames
    moving = (
        {"save_all": True, "append_images": others, "duration": 1000 * SECONDS_A_STAGE, "loop": 0} if others else {}
    )
    first.save(ROOT / f"docs/{name}.png", pnginfo=words, optimize=True, **moving)


def main() -> None:
    server = Server().wait()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_browser(), args=[*BROWSER_ARGUMENTS])
            app = App(browser.new_context(), server)
            for name, shot in SHOTS.items():
                save(name, [taken(app, shot)])
            save("playing", played(app))
            browser.close()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
