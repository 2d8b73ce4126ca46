"""Flag beats environment beats file beats default, and unknown names are errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.errors import ConfigurationError
from shared.redisio.connection import connect
from shared.settings import DEFAULT_URL, load, redact


def test_the_default_is_redis_on_this_host(tmp_path: Path) -> None:
    assert load(environ={}, folder=tmp_path).url == DEFAULT_URL


def test_each_source_beats_the_next(tmp_path: Path) -> None:
    (tmp_path / "rqbeat.toml").write_text('url = "redis://file"\nnamespace = "file"\napp = "file:app"\n')
    environ = {
        "RQBEAT_REDIS_URL": "redis://environment",
        "RQBEAT_NAMESPACE": "environment",
        "REDIS_URL": "redis://last",
    }
    found = load({"url": "redis://flag", "namespace": None}, environ, tmp_path)
    assert (found.url, found.namespace, found.app) == ("redis://flag", "environment", "file:app")


def test_redis_url_is_the_last_resort_of_the_environment(tmp_path: Path) -> None:
    assert load(environ={"REDIS_URL": "redis://x"}, folder=tmp_path).url == "redis://x"


def test_pyproject_has_a_table_for_us(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.rqbeat]\napp = "a:b"\n[tool.other]\nx = 1\n')
    assert load(environ={}, folder=tmp_path).app == "a:b"


def test_unknown_names_are_errors_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="did you mean RQBEAT_REDIS_URL"):
        load(environ={"RQBEAT_REDIS_ULR": "x"}, folder=tmp_path)
    (tmp_path / "rqbeat.toml").write_text('namspace = "x"\n')
    with pytest.raises(ConfigurationError, match="did you mean namespace"):
        load(environ={}, folder=tmp_path)


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "rqbeat.toml").write_text("= broken")
    with pytest.raises(ConfigurationError, match=r"rqbeat\.toml"):
        load(environ={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:S3CRET@host:6379/0", "redis://:***@host:6379/0"),
        ("rediss://user:p%40ss@host/1", "rediss://user:***@host/1"),
        ("redis://host", "redis://host"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://h/0?password=S3CRET", "redis://h/0?password=***"),
        ("redis://h/0?db=1&pass%77ord=S3@CRET&x=1", "redis://h/0?db=1&pass%77ord=***&x=1"),
        ("unix:///run/redis.sock?password=S3CRET", "unix:///run/redis.sock?password=***"),
        ("redis://:a/b@h", "redis://:***@h"),
        ("redis://:a?password=b@h", "redis://:***@h"),
        ("redis://user:[a@h", "redis://user:***@h"),
        ("redis://[::1", "redis://[::1"),
    ],
)
def test_passwords_are_never_shown(url: str, shown: str) -> None:
    assert redact(url) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis//:S3CRET@host", "redis//:***@host"),
        ("redis:S3CRET@host", "redis:***@host"),
        ("redis://:S3#C/R?ET@x@host:6379/0", "redis://:***@host:6379/0"),
        ("redis+sentinel://user:S3CRET@a:1,b:2/m", "redis+sentinel://user:***@a:1,b:2/m"),
        ("unix://:S3CRET@/run/redis.sock", "unix://:***@/run/redis.sock"),
        ("redis://host/0?password=S3CRET&db=1", "redis://host/0?password=***&db=1"),
    ],
)
def test_nor_where_the_url_is_wrong_or_has_it_elsewhere(url: str, shown: str) -> None:
    assert redact(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "redis://[",
        "redis://[::1",
        "redis://h:port",
        "redis://h/abc",
        "redis://\udcff",
        "redis://:S3CRET/b@h",
        "redis://:[S3CRET@h",
        "redis+sentinel://a:x/s",
        "redis+sentinel://a:1/s/abc",
        "redis+sentinel://:S3CRET@a:x/s",
    ],
)
def test_a_url_that_is_none_is_one_error_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        connect(url)
    assert "S3CRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [("redis://:S3CRET@h/abc", "the database 'abc'"), ("redis+sentinel://:S3CRET@a:x/s", "expected redis.sentinel")],
)
def test_what_is_wrong_is_told_beside_a_sound_password(url: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        connect(url)


@pytest.mark.parametrize("name", ["url", "namespace", "app"])
def test_settings_are_text(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: .* is not UTF-8"):
        load({name: "x\udcff"}, {}, tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tool = 3", "tool must be a table"),
        ("tool = []", "tool must be a table"),
        ('[tool]\nrqbeat = "x"', "rqbeat must be a table"),
        ("a = " + "[" * 5000, "nested too deeply"),
    ],
)
def test_a_pyproject_of_another_shape_is_one_error(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=told):
        load(environ={}, folder=tmp_path)


def test_a_deleted_current_folder_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigurationError, match="was deleted"):
        load(environ={})


def test_a_note_of_dev_that_is_no_text_is_one_error(tmp_path: Path) -> None:
    (tmp_path / ".rqbeat").mkdir()
    (tmp_path / ".rqbeat" / "url").write_bytes(b"redis://\xff")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load(environ={}, folder=tmp_path)
