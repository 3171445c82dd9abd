"""docs/corpus.md and the files of deploy/ say what the code says: flags, commands, versions."""

import re
import shlex

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from core.corpus.__main__ import command
from core.corpus.tables import COLUMNS, schema_of
from tests.source_files import ROOT
from tests.test_requirements import CORPUS, pins
from tools.docs import corpus_flags

DOC = ROOT / "docs/corpus.md"
DEPLOY = ROOT / "deploy"
SAYING = [ROOT / "README.md", DOC, *sorted(DEPLOY.glob("*.yaml"))]
RAY = pins(CORPUS.read_text("utf-8"))["ray"]


def commands(text):
    """The arguments of every `headlight corpus ...` or `python -m core.corpus ...`; a line that begins with a flag goes on."""
    joined = re.sub(r"\s*\\?\n[#\s]*(?=--)", " ", text)
    found = re.findall(r"(?:python -m (?:core|headlight)\.|headlight )corpus +([^`\n]*)", joined)
    return [shlex.split(_unquoted(one), comments=True) for one in found]


def _unquoted(command):
    """Without the closing quote of `ray exec '...'`."""
    return command[:-1] if command.count("'") % 2 else command


def given(arguments):
    """What the command makes of its arguments, without running."""
    name, *options = arguments
    return command.commands[name].make_context(name, options).params


def test_the_columns_of_every_table_are_those_of_the_code():
    rows = re.findall(r"^\| `(\w+)` \| [^|]*\| ([^|]*) \|$", DOC.read_text("utf-8"), re.M)
    listed = {name: [re.split("[:;]", column)[0] for column in columns.split(", ")] for name, columns in rows}
    assert listed == {name: schema_of(name, ("every metric",)).names for name in COLUMNS}


def test_every_flag_that_is_spoken_of_exists():
    ours = {flag.strip("`") for flag, _, _ in corpus_flags()}
    spoken_of = set(re.findall(r"`(--[a-z-]+)", DOC.read_text("utf-8")))
    assert spoken_of - ours <= {"--build-arg"}  # of docker


@pytest.mark.parametrize("file", SAYING, ids=lambda file: file.name)
def test_every_command_can_be_given(file):
    found = commands(file.read_text("utf-8"))
    assert found
    for arguments in found:
        given(arguments)


def test_ray_takes_the_cluster():
    cluster = yaml.safe_load((DEPLOY / "ray-cluster.yaml").read_text("utf-8"))
    validate_config(prepare_config(cluster))
    assert f"schema of Ray {RAY.rpartition('.')[0]}" in (DEPLOY / "ray-cluster.yaml").read_text("utf-8")


def test_the_job_runs_the_command_on_machines_of_one_image_and_version():
    job = yaml.safe_load((DEPLOY / "kuberay-job.yaml").read_text("utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    (arguments,) = commands(job["spec"]["entrypoint"])
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    containers = [group["template"]["spec"]["containers"][0] for group in groups]
    assert cluster["rayVersion"] == RAY
    assert len({container["image"] for container in containers}) == 1
    workers = sum(
        group["replicas"] * int(group["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"])
        for group in groups[1:]
    )
    asked = given(arguments)
    assert asked["workers"] * asked["cpus"] == workers
    shared = containers[0]["volumeMounts"][0]["mountPath"]
    assert asked["data"].startswith(f"{shared}/")
    assert asked["out"].startswith(f"{shared}/")


def test_the_image_has_the_version_of_ray_that_is_pinned():
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert re.findall(r"^ARG RAY=rayproject/ray:([0-9.]+)-", dockerfile, re.M) == [RAY]
    assert set(re.findall(r"ray\[default\]==([0-9.]+)", DOC.read_text("utf-8"))) == {RAY}
