"""How check.py chooses a browser and when it installs something, with real programs in a PATH of their own."""

import io
import os
import sys
from pathlib import Path

import pytest

import check

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the programs are shell scripts")


class Machine:
    """A machine with only the programs that a test puts on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.log.touch()

    def has(self, name: str, script: str = "exit 0") -> str:
        """Put a shell script on PATH that notes how it was called, then does as told."""
        program = self.folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.log}"\n{script}\n')
        program.chmod(0o755)
        return str(program)

    def installing(self, name: str) -> str:
        """Shell lines that make a program which starts."""
        return f'printf "#!/bin/sh\\nexit 0\\n" > "{self.folder}/{name}"; /bin/chmod +x "{self.folder}/{name}"'

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HEADLIGHT_CHROMIUM", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return Machine(tmp_path)


def test_each_browser_on_path_is_found_and_the_one_that_takes_least_goes_first(machine: Machine) -> None:
    assert check.find_browser() is None
    for name in reversed(check.BROWSERS):
        path = machine.has(name)
        assert check.find_browser() == path
    assert check.BROWSERS[:2] == ("chromium-headless-shell", "chromium")


def test_a_browser_that_does_not_start_is_passed_over(machine: Machine) -> None:
    machine.has("chromium-browser", 'echo "please install the snap"; exit 1')
    assert check.find_browser() is None
    chrome = machine.has("google-chrome")
    assert check.find_browser() == chrome


def test_the_chosen_browser_goes_first_and_has_to_start(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has("chromium")
    monkeypatch.setenv("HEADLIGHT_CHROMIUM", machine.has("my-browser"))
    assert check.find_browser() == str(machine.folder / "my-browser")
    monkeypatch.setenv("HEADLIGHT_CHROMIUM", str(machine.folder / "nowhere"))
    with pytest.raises(check.CheckError, match=r"HEADLIGHT_CHROMIUM is .*nowhere"):
        check.find_browser()


@pytest.mark.parametrize("package", ["chromium-headless-shell", "chromium"])
def test_root_installs_the_package(machine: Machine, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine.has("apt-get", f'[ "$4" = {package} ] && {machine.installing(package)}')
    assert check.install_browser(sys.executable) == str(machine.folder / package)
    tried = ["libatomic1", "chromium-headless-shell", "chromium"]
    assert machine.calls == [
        "apt-get update",
        *(f"apt-get install --yes --no-install-recommends {name}" for name in tried[: tried.index(package) + 1]),
    ]


@pytest.mark.parametrize(
    ("is_asked", "answer", "is_used"),
    [*((True, answer, "y" in answer) for answer in ("y\n", "yes\n", "\n", "no\n", "")), (False, "y\n", False)],
)
def test_sudo_is_used_only_if_a_person_agrees(machine, monkeypatch, capsys, is_asked, answer, is_used):
    """Where there is no terminal, nobody can be asked."""
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: is_asked
    monkeypatch.setattr(sys, "stdin", terminal)
    machine.has("sudo", '"$@"')
    machine.has("apt-get", f'[ "$4" = chromium ] && {machine.installing("chromium")}')
    python = python_with_playwright(machine, install=machine.installing("playwright-chromium"))
    browser = "chromium" if is_used else "playwright-chromium"
    assert check.install_browser(python) == str(machine.folder / browser)
    assert any(call.startswith("sudo apt-get ") for call in machine.calls) == is_used
    assert ("Install libatomic1 and Chromium with sudo apt-get?" in capsys.readouterr().out) == is_asked


# A "Python" that knows just what check.py asks of Playwright: installing its Chromium, and where that is.
PLAYWRIGHT = 'case "$*" in *install*) {install} ;; *) echo "{path}" ;; esac'


def python_with_playwright(machine: Machine, *, install: str) -> str:
    return machine.has("python", PLAYWRIGHT.format(install=install, path=machine.folder / "playwright-chromium"))


@pytest.mark.parametrize(
    ("user", "script", "arguments"),
    [
        (1000, "exit 0", "install chromium"),
        (0, "exit 100", "install --with-deps chromium"),
    ],  # for root it has no package
)
def test_playwright_downloads_where_packages_cannot_be_installed(machine, monkeypatch, user, script, arguments):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    machine.has("apt-get", script)
    python = python_with_playwright(machine, install=machine.installing("playwright-chromium"))
    assert check.playwright_browser(python) is None
    assert check.install_browser(python) == str(machine.folder / "playwright-chromium")
    assert f"python -m playwright {arguments}" in machine.calls
    assert any(call.startswith("apt-get") for call in machine.calls) == (user == 0)


def test_without_any_browser_the_message_says_what_to_do(machine: Machine) -> None:
    python = python_with_playwright(machine, install="exit 1")
    with pytest.raises(check.CheckError, match=r"Install one and run this again.*HEADLIGHT_CHROMIUM"):
        check.install_browser(python)


@pytest.mark.parametrize(
    ("in_ci", "user", "has_caddy", "installs"),
    [(True, 0, False, True), (True, 1000, False, True), (True, 0, True, False), (False, 0, False, False)],
)
def test_the_proxy_is_installed_once_and_only_in_ci(machine, monkeypatch, in_ci, user, has_caddy, installs):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.delenv("CI", raising=False)
    if in_ci:
        monkeypatch.setenv("CI", "true")
    machine.has("sudo", '"$@"')
    machine.has("apt-get")
    if has_caddy:
        machine.has("caddy")
    check.install_proxy()
    asked = ["apt-get update", "apt-get install --yes --no-install-recommends caddy"]
    assert [call for call in machine.calls if not call.startswith("sudo ")] == (asked if installs else [])
    assert len(machine.calls) == len(asked) * installs * (1 if user == 0 else 2)


# --- installing requirements


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in check.REQUIREMENTS:
        (tmp_path / name).write_text(f"# {name}\n")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    return tmp_path


def test_requirements_are_installed_once_until_they_change(machine: Machine, clone: Path) -> None:
    python = machine.has("python")

    def installs() -> int:
        check.install_requirements(python)
        return sum(" install " in call for call in machine.calls)

    assert installs() == 2
    assert installs() == 2
    (clone / "requirements-dev.txt").write_text("# changed\n")
    assert installs() == 4


@pytest.mark.usefixtures("clone")
def test_a_failed_install_is_tried_again(machine: Machine) -> None:
    python = machine.has("python", 'case "$*" in *models*) exit 1 ;; esac')
    for attempt in (1, 2):
        with pytest.raises(check.CheckError, match="installing models failed"):
            check.install_requirements(python)
        assert sum("requirements-dev.txt" in call for call in machine.calls) == attempt


def test_the_outer_pip_serves_an_environment_without_one(machine: Machine) -> None:
    bare = machine.has("python", "exit 1")
    assert check.pip_command(bare) == [sys.executable, "-m", "pip", "--python", bare]
    assert check.pip_command(machine.has("python"))[0] == bare


# --- steps


def test_a_step_says_its_name_and_stops_with_a_remedy_if_it_fails(machine, capsys):
    check.run("ruff format", [machine.has("ruff")])
    assert capsys.readouterr().out == "check.py: ruff format\n"
    with pytest.raises(check.CheckError, match=r"ruff format failed \(exit code 3\)\. To repair most of it: do this"):
        check.run("ruff format", [machine.has("ruff", "exit 3")], hint="do this")


@pytest.mark.parametrize(
    ("arguments", "parallel"), [([], True), (["-k", "masks"], True), (["-n0"], False), (["--pdb"], False)]
)
def test_tests_run_in_several_processes_unless_asked_otherwise(arguments: list[str], parallel: bool) -> None:
    assert bool(check.in_parallel(arguments)) == parallel
