"""What docker-compose.yml and the Dockerfile must say, read from the files: no container engine needed.

Each test of the compose file is named after the fault of a deployment that it keeps out. The file is read by a reader
of the little YAML that it uses, so that the tests need no library; what it does not know makes it fail.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from shared.instants import duration_ms
from shared.job import Job

ROOT = Path(__file__).resolve().parents[2]
OURS = ("beat", "worker")
SERVICES = ("redis", *OURS)


def read_yaml(text: str) -> dict[str, Any]:
    """Maps, lists and text, by indentation; anchors, aliases and merges; lists in brackets as JSON."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    anchors: dict[str, Any] = {}
    found, rest = _block(lines, 0, anchors)
    assert not rest
    assert isinstance(found, dict)
    return found


def _block(lines: list[str], indent: int, anchors: dict[str, Any]) -> tuple[Any, list[str]]:
    if lines and lines[0].lstrip().startswith("- "):
        own = [line for line in lines if _indent(line) >= indent]
        return [line.strip().removeprefix("- ") for line in own], lines[len(own) :]
    found: dict[str, Any] = {}
    while lines and _indent(lines[0]) == indent:
        name, _, value = lines[0].strip().partition(":")
        end = next((n for n, line in enumerate(lines[1:], 1) if _indent(line) <= indent), len(lines))
        inner, lines = lines[1:end], lines[end:]
        anchor = re.fullmatch(r"\s*&(\w+)", value)
        content = _block(inner, _indent(inner[0]), anchors)[0] if inner else _scalar(value.strip(), anchors)
        if anchor:
            anchors[anchor[1]] = content
        found = {**content, **found} if name == "<<" else {**found, name: content}
    return found, lines


def _scalar(value: str, anchors: dict[str, Any]) -> Any:
    if value.startswith("*"):
        return anchors[value[1:]]
    return json.loads(value) if value.startswith(("[", '"')) else value


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


COMPOSE = read_yaml((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def service(name: str) -> dict[str, Any]:
    found: dict[str, Any] = COMPOSE["services"][name]
    return found


def seconds(duration: str) -> int:
    """A duration, or the default of a variable that holds one."""
    found = re.fullmatch(r"(?:\$\{\w+:-)?(\d+)s\}?", duration)
    assert found, duration
    return int(found[1])


def test_the_stack_is_redis_a_beat_and_workers() -> None:
    assert set(COMPOSE["services"]) == set(SERVICES)


def test_dc_stop_grace() -> None:
    assert seconds(service("worker")["stop_grace_period"]) * 1000 > duration_ms(Job.timeout)
    assert all("stop_grace_period" in service(name) for name in SERVICES)


@pytest.mark.parametrize("name", OURS)
def test_dc_python_pid1(name: str) -> None:
    assert service(name)["init"] == "true"
    assert service(name)["command"][0] in {"run", "worker"}
    assert 'ENTRYPOINT ["rqbeat"]' in DOCKERFILE, "a shell in between would keep the signals to itself"


@pytest.mark.parametrize("name", OURS)
def test_dc_start_order(name: str) -> None:
    assert service(name)["depends_on"] == {"redis": {"condition": "service_healthy"}}
    assert "valkey-cli ping" in service("redis")["healthcheck"]["test"][1]


def test_dc_data_path() -> None:
    assert service("redis")["volumes"] == ["redis:/data"]
    assert "--dir /data" in service("redis")["command"]
    assert "redis" in COMPOSE["volumes"]


def test_redis_exposed_port() -> None:
    assert not any("ports" in service(name) or "network_mode" in service(name) for name in SERVICES)
    assert any(part.startswith("--requirepass") for part in service("redis")["command"]), "a password can be set"
    assert all("REDIS_PASSWORD" in service(name)["environment"]["RQBEAT_REDIS_URL"] for name in OURS)


def test_redis_eviction_policy() -> None:
    assert "--maxmemory-policy noeviction" in service("redis")["command"]


def test_redis_data_loss() -> None:
    assert "--appendonly yes" in service("redis")["command"]


@pytest.mark.parametrize("name", SERVICES)
def test_poison_crash_exit_zero(name: str) -> None:
    assert service(name)["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", OURS)
def test_each_process_is_judged_by_its_own_health(name: str) -> None:
    assert service(name)["healthcheck"]["test"] == ["CMD", "rqbeat", "health", "--role", name]
    assert "HEALTHCHECK" not in DOCKERFILE


@pytest.mark.parametrize("name", OURS)
def test_the_root_is_read_only_and_rights_are_few(name: str) -> None:
    found = service(name)
    assert (found["read_only"], found["tmpfs"], found["cap_drop"]) == ("true", ["/tmp"], ["ALL"])  # noqa: S108
    assert re.search(r"^USER (?!root)\w+$", DOCKERFILE, re.MULTILINE)


@pytest.mark.parametrize("name", OURS)
def test_only_settings_are_passed_into_containers_under_our_prefix(name: str) -> None:
    ours = {variable for variable in service(name)["environment"] if variable.startswith("RQBEAT_")}
    assert ours <= {"RQBEAT_APP", "RQBEAT_REDIS_URL", "RQBEAT_NAMESPACE", "RQBEAT_APP_VERSION", "RQBEAT_PAYLOAD_KEY"}


def test_compose_1_and_2_both_take_it() -> None:
    assert not {"version", "name", "include"} & set(COMPOSE)
    newer = {"develop", "pull_policy", "post_start", "start_interval", "attach", "annotations"}
    assert not any(newer & (set(service(name)) | set(service(name)["healthcheck"])) for name in SERVICES)


def test_the_image_needs_no_buildkit_and_names_no_registry() -> None:
    instructions = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    assert not any("--mount" in line or "<<" in line or "--link" in line for line in instructions)
    assert [line for line in instructions if line.startswith("FROM")] == [
        "FROM python:3.13-slim AS build",
        "FROM python:3.13-slim",
    ]
    assert not any("http" in line for line in instructions)
