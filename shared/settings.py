"""Where a setting comes from: a flag beats the app's code, that the environment, that a file, that the default.

    name        flag         environment                          [tool.rqbeat] or rqbeat.toml
    url         --url        RQBEAT_REDIS_URL, else REDIS_URL     url
    namespace   --namespace  RQBEAT_NAMESPACE                     namespace
    app         APP          RQBEAT_APP                           app
    version                  RQBEAT_APP_VERSION                   version
    payload_key              RQBEAT_PAYLOAD_KEY                   (a secret, see shared/signature.py: in no file)
    failpoint                RQBEAT_FAILPOINT                     (where a test has a beat killed: no file may say so)

Without any of them, the server that an `rqbeat dev` in this folder has started (`.rqbeat/url`), else Redis on this
host. A name that is none of these, in a file or behind `RQBEAT_`, is an error: a typing error must not pass as a
default.
The environment and the files are read when `load` is called, never at import.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from shared.errors import ConfigurationError
from shared.installation import current_folder
from shared.keys import Keys
from shared.signature import Keyring

DEFAULT_URL = "redis://127.0.0.1:6379/0"
DEV_URL = Path(".rqbeat") / "url"
_ENVIRONMENT = {
    "RQBEAT_REDIS_URL": "url",
    "RQBEAT_NAMESPACE": "namespace",
    "RQBEAT_APP": "app",
    "RQBEAT_APP_VERSION": "version",
    "RQBEAT_PAYLOAD_KEY": "payload_key",
    "RQBEAT_FAILPOINT": "failpoint",
}
_IN_FILES = tuple(name for name in _ENVIRONMENT.values() if name not in {"failpoint", "payload_key"})
_CREDENTIALS = re.compile(r"^(?P<front>(?:[^:/?#]*:?/+)?+[^:@/?#]*):.*@", re.DOTALL)
"""Up to the last `@`: a password that should have been percent-encoded may hold any character."""
_QUERY_ITEM = re.compile(r"(?P<name>[?&;][^=&;]*)=[^&]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a process needs to know before it starts."""

    url: str = DEFAULT_URL
    namespace: str = ""
    app: str | None = None
    version: str | None = None
    payload_key: str = field(default="", repr=False)
    failpoint: str | None = None
    rq_prefix: str = "rq"
    flags: frozenset[str] = frozenset()
    """The names that were given as flags: nothing beats them."""

    def of_app(self, app: object) -> Settings:
        """These settings with what the app's manager was given in its code: it beats all but flags."""
        given: Mapping[str, Any] = getattr(app, "given", {})
        return replace(self, **{name: value for name, value in given.items() if value and name not in self.flags})

    @property
    def keys(self) -> Keys:
        """The Redis keys of this namespace."""
        return Keys.for_namespace(self.namespace, self.rq_prefix)

    @property
    def keyring(self) -> Keyring:
        """The keys by which payloads are signed and verified."""
        return Keyring.parse(self.payload_key)

    @property
    def shown_url(self) -> str:
        """The URL without its password."""
        return redact(self.url)


def load(
    flags: Mapping[str, str | None] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings in force. Raises ConfigurationError that names every unknown name at once."""
    environ = os.environ if environ is None else environ
    values = {
        **_from_file(current_folder() if folder is None else folder),
        **_from_environment(environ),
        **{name: value for name, value in (flags or {}).items() if value is not None},
    }
    _refuse_no_text(values)
    flagged = frozenset(name for name, value in (flags or {}).items() if value is not None)
    settings = Settings(**values, rq_prefix=environ.get("RQ_KEY_PREFIX", "rq"), flags=flagged)
    settings.keys, settings.keyring  # noqa: B018 - what makes no key is an error here, not at the first command
    return settings


def keyring(environ: Mapping[str, str] | None = None) -> Keyring:
    """The keys of payloads alone, for those who were handed all else."""
    return Keyring.parse((os.environ if environ is None else environ).get("RQBEAT_PAYLOAD_KEY", ""))


def redact(url: str) -> str:
    """A URL as it may be shown: passwords, in its authority or its query, as ***.

    Works on the text, so that a URL which can't be parsed is safe to show as well; it hides rather too much of one.
    """
    return _QUERY_ITEM.sub(_redacted_item, _CREDENTIALS.sub(r"\g<front>:***@", url, count=1))


def _redacted_item(item: re.Match[str]) -> str:
    return f"{item['name']}=***" if "password" in unquote(item["name"]).lower() else item[0]


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    _refuse_unknown((name for name in environ if name.startswith("RQBEAT_")), _ENVIRONMENT, "environment")
    found = {_ENVIRONMENT[name]: environ[name] for name in _ENVIRONMENT if environ.get(name)}
    if "url" not in found and environ.get("REDIS_URL"):
        found["url"] = environ["REDIS_URL"]
    return found


def _refuse_no_text(values: Mapping[str, str]) -> None:
    """Bytes that are no UTF-8 arrive as lone surrogates, which Redis can't be sent and a terminal can't show."""
    for name, value in values.items():
        try:
            value.encode()
        except UnicodeEncodeError:
            shown = "***" if name == "payload_key" else f"{redact(value)!r:.120}"
            raise ConfigurationError(f"{name}: {shown} is not UTF-8 text") from None


def _from_file(folder: Path) -> dict[str, str]:
    return {**_from_dev(folder), **_from_toml(folder)}


def _from_dev(folder: Path) -> dict[str, str]:
    """The server that an `rqbeat dev` in this folder has started, while it runs."""
    note = folder / DEV_URL
    return {"url": note.read_text(encoding="utf-8", errors="surrogateescape").strip()} if note.is_file() else {}


def _from_toml(folder: Path) -> dict[str, str]:
    own = folder / "rqbeat.toml"
    if own.is_file():
        return _checked(_read_toml(own), own)
    project = folder / "pyproject.toml"
    if project.is_file():
        return _checked(_table(_table(_read_toml(project), "tool", project), "rqbeat", project), project)
    return {}


def _table(parent: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    found = parent.get(name, {})
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path}: {name} must be a table, got {found!r:.80}")
    return found


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: nested too deeply") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: can't be read: {error.strerror}") from None


def _checked(table: Mapping[str, Any], path: Path) -> dict[str, str]:
    _refuse_unknown(table, _IN_FILES, str(path))
    for name, value in table.items():
        if not isinstance(value, str):
            raise ConfigurationError(f"{path}: {name} must be text, got {value!r:.80}")
    return dict(table)


def _refuse_unknown(names: Iterable[str], known: Iterable[str], place: str) -> None:
    unknown = [_with_hint(name, known) for name in names if name not in known]
    if unknown:
        raise ConfigurationError(f"{place}: unknown setting {', '.join(unknown)}")


def _with_hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"{name} (did you mean {near[0]}?)" if near else name
