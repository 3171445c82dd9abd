"""How check.py chooses a browser and when it installs something, with real programs in a PATH of their own."""

import io
import os
import re
import subprocess
import sys

import psutil
import pytest

import check

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the programs are shell scripts")


class Machine:
    """A machine with only the programs that a test puts on it."""

    def __init__(self, folder):
        self.folder = folder
        self.log = folder / "log"
        self.log.touch()

    def has(self, name, script="exit 0"):
        """Put a shell script on PATH that notes how it was called, then does as told."""
        program = self.folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.log}"\n{script}\n')
        program.chmod(0o755)
        return str(program)

    def installing(self, name):
        """Shell lines that make a program which starts."""
        return f'printf "#!/bin/sh\\nexit 0\\n" > "{self.folder}/{name}"; /bin/chmod +x "{self.folder}/{name}"'

    @property
    def calls(self):
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HEADLIGHT_CHROMIUM", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return Machine(tmp_path)


def test_each_browser_on_path_that_starts_is_found_and_the_one_that_takes_least_goes_first(machine):
    machine.has("chromium-browser", 'echo "please install the snap"; exit 1')
    assert check.find_browser() is None
    for name in reversed(check.BROWSERS):
        path = machine.has(name)
        assert check.find_browser() == path
    assert check.BROWSERS[:2] == ("chromium-headless-shell", "chromium")


def test_the_chosen_browser_goes_first_and_has_to_start(machine, monkeypatch):
    machine.has("chromium")
    monkeypatch.setenv("HEADLIGHT_CHROMIUM", machine.has("my-browser"))
    assert check.find_browser() == str(machine.folder / "my-browser")
    monkeypatch.setenv("HEADLIGHT_CHROMIUM", str(machine.folder / "nowhere"))
    with pytest.raises(check.CheckError, match=r"HEADLIGHT_CHROMIUM is .*nowhere"):
        check.find_browser()


SUDO = "Install libatomic1 and Chromium with sudo apt-get?"
# A "Python" that knows just what check.py asks of Playwright: installing its Chromium, and where that is.
PLAYWRIGHT = 'case "$*" in *install*) {install} ;; *) echo "{path}" ;; esac'
INSTALLED = [  # the user, what somebody answers at a terminal, the package that there is, and whether it is installed
    *((0, None, package, True) for package in check.BROWSERS[:2]),
    *((1000, answer, "chromium", "y" in answer) for answer in ("y\n", "yes\n", "\n", "no\n", "")),
    (1000, None, "chromium", False),
    (0, None, "none", False),
]


@pytest.mark.parametrize(("user", "answer", "package", "is_installed"), INSTALLED)
def test_a_browser_is_a_package_where_a_person_agrees_and_else_one_of_playwright(
    user, answer, package, is_installed, machine, monkeypatch, capsys
):
    """Root is asked nothing, and where there is no terminal, nobody can be asked."""
    terminal = io.StringIO("y\n" if answer is None else answer)
    terminal.isatty = lambda: answer is not None
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    machine.has("sudo", '"$@"')
    machine.has("apt-get", f'[ "$4" = {package} ] && {machine.installing(package)}')
    install, path = machine.installing("playwright-chromium"), machine.folder / "playwright-chromium"
    python = machine.has("python", PLAYWRIGHT.format(install=install, path=path))
    assert check.playwright_browser(python) is None
    assert check.install_browser(python) == str(machine.folder / package if is_installed else path)
    of_apt = [call.removeprefix("sudo ") for call in machine.calls if "apt-get" in call][:: 1 if user == 0 else 2]
    tried = ["libatomic1", *check.BROWSERS[:2]]
    tried = tried[: tried.index(package) + 1] if is_installed else tried
    asked = ["apt-get update", *(f"apt-get install --yes --no-install-recommends {name}" for name in tried)]
    assert of_apt == asked * (user == 0 or is_installed)
    with_libraries = "--with-deps " * (user == 0)
    assert (f"python -m playwright install {with_libraries}chromium" in machine.calls) == (not is_installed)
    assert (SUDO in capsys.readouterr().out) == (answer is not None)


@pytest.mark.parametrize(
    ("script", "lacks"),
    [
        ('case "$*" in *--version*) exit 0 ;; *) exit 1 ;; esac', "Chromium or Chrome, which"),
        ("exit 1", "libatomic1, without which Playwright does not start"),
    ],
)
def test_what_could_not_be_installed_is_named_with_the_command_that_does_it(machine, script, lacks):
    python = machine.has("python", script)
    if "libatomic1" in lacks:
        machine.has("chromium")
        assert check.working_browser(python) is None
    with pytest.raises(check.CheckError, match=rf"need {lacks}.*install libatomic1 chromium-headless-shell.*_CHROMIUM"):
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


@pytest.fixture
def clone(tmp_path, monkeypatch):
    for name in check.REQUIREMENTS:
        (tmp_path / name).write_text(f"# {name}\n")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    return tmp_path


def test_requirements_are_installed_once_until_they_change(machine, clone):
    python = machine.has("python")

    def installs():
        check.install_requirements(python)
        return sum(" install " in call for call in machine.calls)

    assert installs() == 2
    assert installs() == 2
    (clone / "requirements-dev.txt").write_text("# changed\n")
    assert installs() == 4


@pytest.mark.usefixtures("clone")
def test_a_failed_install_is_tried_again(machine):
    python = machine.has("python", 'case "$*" in *models*) exit 1 ;; esac')
    for attempt in (1, 2):
        with pytest.raises(check.CheckError, match="installing models failed"):
            check.install_requirements(python)
        assert sum("requirements-dev.txt" in call for call in machine.calls) == attempt


def test_a_step_says_its_name_and_stops_with_a_remedy_if_it_fails(machine, capsys):
    check.run("ruff format", [machine.has("ruff")])
    assert capsys.readouterr().out == "check.py: ruff format\n"
    with pytest.raises(check.CheckError, match=r"ruff format failed \(exit code 3\)\. To repair most of it: do this"):
        check.run("ruff format", [machine.has("ruff", "exit 3")], hint="do this")


@pytest.mark.parametrize(("arguments", "parallel"), [([], True), (["-k", "masks"], True), (["-n0"], False)])
def test_tests_run_in_several_processes_unless_asked_otherwise(arguments, parallel):
    assert bool(check.in_parallel(arguments)) == parallel


@pytest.mark.skipif(not check.PROCESSES.exists(), reason="only Linux tells what a process holds")
def test_a_process_is_counted_with_those_that_it_started(capsys):
    """Two of them hold 60 MB each, one of which the other started."""
    child = "held = bytearray(b'x') * 60_000_000; print(flush=True); input()"
    parent = f"import subprocess, sys; held = b'x' * 60_000_000; subprocess.run([sys.executable, '-c', {child!r}])"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", parent], **pipes) as process:
        assert process.stdout.readline() == "\n"
        assert len(check.family(process.pid)) == 2
        assert 120e6 < sum(map(check.held, check.family(process.pid))) < 180e6
        process.communicate("go on\n")
    check.run("reading", [sys.executable, "-c", "pass"], tells_memory=True)
    assert re.search(r"reading and all that it started held \d+\.\d GB at most", capsys.readouterr().out)


@pytest.mark.skipif(not check.PROCESSES.exists(), reason="only Linux tells what a process holds")
def test_what_a_process_holds_is_what_psutil_says():
    assert check.held(os.getpid()) == pytest.approx(psutil.Process().memory_full_info().pss, rel=0.1)
    assert check.held(2**22 + 1) == 0
