"""Random walks through the app in a real browser: does each page show what its address says?

    python -m bench.walks                          5,000 steps, some hours on 2 idle cores
    python -m bench.walks --steps 500 --seed 300   fewer, other walkers: each has a seed of its own, the next numbers

A walker goes by the menu, by links and by addresses, back and forth in the history, reloads, chooses heads, stages and metrics,
changes between two windows of one browser, and presents a talk with keys; some steps are two or three acts at once, faster than
the page comes. After each step, once the page is still, the numbers that it draws are compared with those that core computes
from nothing but the address (tests/browser/addresses.py), and the view of the talk with the one that was saved.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Error

from bench.measuring import chromium
from tests.browser.addresses import drawn_by
from tests.browser.driver import STILL, App, Server, difference
from ui import state

SMOLLM = "model=SmolLM2-135M-Instruct"
ADDRESSES = (
    "/step_by_step",
    "/step_by_step?layer=2&head=3&stage=raw",
    f"/step_by_step?{SMOLLM}&layer=18&head=6&stage=masked",
    "/step_by_step?source=random&seed=7&dk=3",
    "/step_by_step?source=random&seed=8&stage=scaled&queries=4",
    "/heads",
    "/heads?layer=1&head=4&metric=sink",
    "/heads?layer=0&head=2&metric=pair&query=10&key=2",
    f"/heads?{SMOLLM}&metric=previous&layer=0&head=2&text=The+capital+of+France+is",
    f"/heads?{SMOLLM}&metric=contribution&layer=23&head=4&text=The+capital+of+France+is",
    "/heads?text=The+cat+saw+the+dog&metric=entropy&layer=3&head=0",
    "/what_if?edit=mute+5.11&layer=5&head=11",
    f"/what_if?{SMOLLM}&text=The+capital+of+France+is&layer=23&head=4&edit=mute+23.4",
    f"/what_if?{SMOLLM}&text=The+capital+of+France+is&layer=29&head=2&edit=scale+2&edit=off+mute+23.4",
    "/softmax?scores=1%2C+2%2C+3",
    "/softmax?scores=3%2C+1&temperature=0.5",
)
MENU = ("Step by step", "Heads", "What if", "Gallery")
PATIENCE = 20.0  # seconds until a page has to show what its address says
KEYS = ("PageDown", "PageUp", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "s")


class Walker:
    """One walker with two windows, each a session of its own."""

    def __init__(self, apps: list[App], seed: int) -> None:
        self.apps, self.app = apps, apps[0]
        self.chance = random.Random(seed)
        self.talk: list[str] = []
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.last: list[str] = []

    # --- acts

    def step(self) -> None:
        """One act, or several at once; then the page has to show what its address says."""
        acts = self.on_stage() if self.presents() else self.at_the_desk()
        count = self.chance.choices((1, 2, 3), (6, 3, 1))[0]
        for name, act in [self.chance.choice(acts) for _ in range(count)]:
            self.done[name] += 1
            self.last = [*self.last[-11:], f"{name} at {self.app.here}"]
            try:
                act()
            except Error as error:  # what it would click is gone already, as for a hasty visitor
                self.done[f"{name}, gone"] += "Timeout" in str(error)
            if self.chance.random() < 0.5:
                self.app.page.wait_for_timeout(self.chance.choice((5, 30, 150)))
        self.app.page.wait_for_timeout(150)
        if trouble := self.trouble():
            self.wrong.append(f"{trouble}\n        " + "\n        ".join(self.last))

    def presents(self) -> bool:
        return "present=true" in self.app.here

    def at_the_desk(self) -> list[tuple[str, Callable[[], object]]]:
        page = self.app.page
        quick = {"timeout": 3000}
        acts: list[tuple[str, Callable[[], object]]] = [
            ("menu", lambda: page.get_by_role("link", name=self.chance.choice(MENU), exact=True).first.click(**quick)),
            ("back", lambda: page.evaluate("history.back()")),
            ("back", lambda: page.evaluate("history.back()")),
            ("forward", lambda: page.evaluate("history.forward()")),
            ("address", lambda: self.go(self.chance.choice(ADDRESSES))),
            ("open", lambda: page.goto(self.app.server.address + self.chance.choice(ADDRESSES), wait_until="commit")),
            ("reload", lambda: page.reload(wait_until="commit")),
            ("window", self.change_window),
            (
                "head",
                lambda: self.choose(state.HEAD_BOX, f"Head {self.chance.randrange(6)}.{self.chance.randrange(9)}"),
            ),
            ("tables", lambda: page.locator(f".st-key-{state.TABLES} label").click(**quick)),
            ("link", lambda: page.get_by_role("link", name="Its steps").click(**quick)),
            ("link", lambda: page.get_by_role("link", name="All heads of this model").click(**quick)),
            ("cell", lambda: self.click_picture("atlas")),
            ("stage", lambda: self.click_picture("equation")),
            ("present", lambda: page.get_by_role("button", name="Present").click(**quick)),
        ]
        if self.talk:
            acts += [("talk", self.start_talk)] * 2
        return acts

    def on_stage(self) -> list[tuple[str, Callable[[], object]]]:
        page = self.app.page
        acts: list[tuple[str, Callable[[], object]]] = [
            *((key, lambda key=key: page.keyboard.press(key)) for key in KEYS),
            ("PageDown", lambda: page.keyboard.press("PageDown")),
            ("PageUp", lambda: page.keyboard.press("PageUp")),
            ("Escape", lambda: page.keyboard.press("Escape")),
            ("back", lambda: page.evaluate("history.back()")),
            ("forward", lambda: page.evaluate("history.forward()")),
            ("reload", lambda: page.reload(wait_until="commit")),
            ("window", self.change_window),
        ]
        return acts

    def go(self, address: str) -> None:
        self.app.page.evaluate("path => window.headlight && window.headlight.go(path)", address)

    def change_window(self) -> None:
        self.app = self.chance.choice(self.apps)

    def choose(self, key: str, option: object) -> None:
        box = self.app.widget(key).get_by_role("combobox")
        box.click(timeout=3000)
        box.fill(str(option), timeout=3000)
        self.app.page.get_by_role("option", name=str(option), exact=True).click(timeout=3000)

    def click_picture(self, name: str) -> None:
        area = self.app.widget(state.picture(name)).locator(".nsewdrag").first
        box = area.bounding_box(timeout=3000)
        if box is not None:
            where = {"x": self.chance.random() * box["width"], "y": self.chance.random() * box["height"]}
            area.click(position=where, timeout=3000)

    def start_talk(self) -> None:
        self.app.page.get_by_role("link", name="Talk", exact=True).click(timeout=3000)
        self.app.page.get_by_role("button", name="Start").click(timeout=10_000)

    def make_talk(self) -> None:
        """Of some of the addresses, which the browser then keeps for both windows."""
        self.talk = [address.lstrip("/") for address in self.chance.sample(ADDRESSES, 5)]
        self.app.open("/talk").page.locator("summary").click()
        for number, link in enumerate(self.talk, start=1):
            self.app.write(state.NEW_VIEW, link)
            self.app.page.get_by_label(f"View {number}", exact=True).wait_for()
            self.app.idle()

    # --- what has to be

    def trouble(self) -> str | None:
        """What is wrong with the page, if it does not come right; None if it shows what its address says."""
        deadline, found = time.monotonic() + PATIENCE, "nothing was looked at"
        while time.monotonic() < deadline:
            try:
                self.app.idle(0.25)
                address = self.app.here
                found = self.compared(address)
            except (Error, AssertionError) as error:
                found = f"{type(error).__name__}: {str(error)[:200]}"
            if found is None:
                return None
            self.app.page.wait_for_timeout(200)
        return f"{self.app.here}: {found}"

    def compared(self, address: str) -> str | None:
        if alerts := [one for one in self.app.alerts() if "View" not in one and "Another window" not in one]:
            return f"it says {alerts}"
        expected = drawn_by(address)
        drawn = self.app.pictures(expected)
        wrong = {name: difference(drawn[name], numbers) for name, numbers in expected.items()}
        if trouble := [f"{name} {what}" for name, what in wrong.items() if what is not None]:
            return "; ".join(trouble)
        return self.compared_with_talk(address)

    def compared_with_talk(self, address: str) -> str | None:
        """Whether the number at the lower right is that of the address, and the page that of the view."""
        said = parse_qs(urlsplit(address).query)
        if "talk" not in said or not self.talk or not self.presents():
            return None
        number = int(said["talk"][0])
        shown = self.app.widget(state.STAGE_KEYS).locator(".place").inner_text()
        if shown != f"{number} / {len(self.talk)}":
            return f"view {number} is called {shown!r}"
        page = self.talk[number - 1].partition("?")[0]
        return None if urlsplit(address).path == f"/{page}" else f"view {number} of the talk is on /{page}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--length", type=int, default=250, help="steps of one walker")
    asked = parser.parse_args()
    server = Server().wait()
    steps, wrong, problems, done = 0, [], [], Counter()
    with chromium() as browser:
        for number in range(-(-asked.steps // asked.length)):
            context = browser.new_context(**STILL)
            context.set_default_timeout(30_000)
            walk = Walker([App(context, server), App(context, server)], asked.seed + number)
            for app in walk.apps:
                app.open("/step_by_step").forget_history()  # a walk does not leave Headlight
            walk.make_talk()
            for _ in range(min(asked.length, asked.steps - steps)):
                walk.step()
                steps += 1
            wrong += walk.wrong
            for one in walk.wrong:
                print(f"walker {asked.seed + number}: {one}", flush=True)
            problems += [problem for app in walk.apps for problem in app.problems]
            done += walk.done
            print(f"    {steps} steps, {len(wrong)} mismatches, {len(problems)} problems", flush=True)
            context.close()
    log = server.log()
    server.stop()
    print(f"{steps} steps from seed {asked.seed} on: {len(wrong)} mismatches")
    print("acts:", ", ".join(f"{name} {count}" for name, count in done.most_common()))
    print(f"{log.count('Traceback')} tracebacks in the server's log; {len(problems)} problems in the browser")
    for one in sorted(set(problems))[:40]:
        print(f"    {one}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
