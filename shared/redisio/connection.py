"""Connections to Redis, and what its errors mean.

A command is never sent twice by the client library: every write of ours is either idempotent, and then repeated by its
caller, or not repeated at all. A reply that does not come within `REPLY_SECONDS` is an error, so that a half-open
connection can't hang a beat. Errors leave this package as two kinds: try again later, or a person must act.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry as ClientRetry

from shared.errors import ConfigurationError, StoreError, StoreRefusedError, StoreUnavailableError
from shared.keys import Keys
from shared.settings import redact

Client = redis.Redis
"""The client type, for those outside this package who hold one."""

REPLY_SECONDS = 2.0
LOWEST_REDIS = (6, 2)


def connect(url: str, *, reply_seconds: float = REPLY_SECONDS, name: str = "rqbeat") -> redis.Redis:
    """A client for a URL; nothing is sent yet.

    Takes redis://, rediss://, unix:// and redis+sentinel://host:port[,host:port…]/service[/db]. Raises
    ConfigurationError for any other.
    """
    options = {
        "socket_timeout": reply_seconds,
        "socket_connect_timeout": reply_seconds,
        "socket_keepalive": True,
        "retry": ClientRetry(NoBackoff(), 0),
        "client_name": name,
    }
    if url.startswith("redis+sentinel://"):
        return _through_sentinel(url, options)
    if url.startswith("unix://"):
        options.pop("socket_keepalive")
    try:
        client = redis.Redis.from_url(url, **options)
    except ValueError as error:
        raise _refused(url, str(error)) from None
    _check_database(url)
    return client


def _check_database(url: str) -> None:
    """The client would take a database that is no number for number 0."""
    try:
        url.encode()
        parts = urlsplit(url)
    except ValueError as error:
        raise _refused(url, str(error)) from None
    if parts.scheme in {"redis", "rediss"} and not re.fullmatch(r"/?[0-9]{0,9}", parts.path):
        is_safe = "@" not in parts.path
        raise _refused(url, f"the database {parts.path[1:]!r:.80} is not a number", is_safe=is_safe)


def _refused(url: str, why: str, *, is_safe: bool = False) -> ConfigurationError:
    """What is said of a URL may quote a part of it, and that part may be of a password, unless it `is_safe`."""
    shown = redact(url)
    if shown != url and not is_safe:
        why = "it can't be read; in a password, / # ? and @ are written %2F %23 %3F %40"
    return ConfigurationError(f"Redis URL {shown[:200]!r}: {why}")


@contextmanager
def store_errors() -> Iterator[None]:
    """Within the block, errors of Redis become StoreUnavailableError or StoreRefusedError, in one clear line."""
    try:
        yield
    except StoreError:  # told already, by a block within this one
        raise
    except (redis.exceptions.RedisError, OSError, ValueError) as error:
        if (told := _told(error)) is None:
            raise
        raise told from error


def _told(error: Exception) -> Exception | None:
    for kind, tell in _TELLERS:
        if isinstance(error, kind):
            return tell(error)
    return None


def _of_value(error: Exception) -> StoreError | None:
    """What redis-py raises of a connection that another thread closes while it is being opened; else it is not ours."""
    return StoreUnavailableError(f"Redis does not answer: {error}") if "closed file" in str(error) else None


def server_now(client: redis.Redis) -> int:
    """Redis' clock, in ms. One round trip; raises StoreError."""
    with store_errors():
        seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def check_server(client: redis.Redis, keys: Keys) -> list[str]:
    """Whether this server can keep promises; returns warnings. Blocks for one round trip.

    Raises StoreRefusedError for a server that is too old, that evicts keys, or that is a cluster while our keys and
    RQ's do not share one hash tag; StoreUnavailableError while it is loading, a replica, or gone.
    """
    with store_errors():
        info = client.info()
    _check_version(info)
    if info.get("loading"):
        raise StoreUnavailableError("Redis is loading its data set")
    if info.get("role", "master") != "master":
        raise StoreUnavailableError("this Redis is a replica and takes no writes: connect to the primary")
    _check_eviction(info)
    _check_cluster(info, keys)
    return _warnings(info)


def _check_eviction(info: dict[str, object]) -> None:
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        raise StoreRefusedError(
            f"Redis evicts keys (maxmemory-policy {policy}), so queued jobs could vanish: "
            "run `CONFIG SET maxmemory-policy noeviction` and set it in redis.conf"
        )


def _check_cluster(info: dict[str, object], keys: Keys) -> None:
    if info.get("cluster_enabled") and not keys.share_a_slot:
        raise StoreRefusedError(
            "this is a Redis Cluster, and a commit needs all its keys in one slot: "
            "set a namespace that is a hash tag, such as RQBEAT_NAMESPACE={shop}"
        )


def _check_version(info: dict[str, object]) -> None:
    version = str(info.get("redis_version", "0.0"))
    if tuple(int(part) for part in version.split(".")[:2]) < LOWEST_REDIS:
        raise StoreRefusedError(f"Redis {version} is too old: 6.2 or newer, or Valkey 7.2 or newer, is needed")


def _warnings(info: dict[str, object]) -> list[str]:
    if info.get("aof_enabled") or info.get("rdb_last_save_time") is None:
        return []
    return ["Redis keeps no append-only file: after a crash of the server the newest decisions may be lost"]


def _of_connection(error: Exception) -> StoreError:
    """A certificate that is not trusted stays so; a handshake that broke off may go well the next time."""
    broke_off = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    if isinstance(error.__context__, ssl.SSLError) and not isinstance(error.__context__, broke_off):
        return StoreRefusedError(f"TLS with Redis fails: {_first_line(error)}")
    return StoreUnavailableError(f"Redis does not answer: {_first_line(error)}")


def _of_response(error: redis.exceptions.ResponseError) -> Exception:
    text = _first_line(error)
    if text.startswith(("NOAUTH", "WRONGPASS", "NOPERM")) or "invalid username-password" in text:
        return StoreRefusedError(f"Redis refuses the user name or password: {text}")
    if text.startswith(("READONLY", "LOADING", "OOM", "MISCONF", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS")):
        return StoreUnavailableError(f"Redis takes no writes now: {text}")
    return StoreUnavailableError(f"Redis answers with an error: {text}")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300]


def _through_sentinel(url: str, options: dict[str, object]) -> redis.Redis:
    from redis.sentinel import Sentinel  # noqa: PLC0415 - few need it

    place, _, rest = url.removeprefix("redis+sentinel://").partition("/")
    credentials, _, hosts = place.rpartition("@")
    service, _, database = rest.partition("/")
    addresses = [_address(item) for item in hosts.split(",")]
    if not hosts or not service or None in addresses or not re.fullmatch(r"[0-9]{0,9}", database):
        raise _refused(url, "expected redis+sentinel://host:port,host:port/service-name/database", is_safe=True)
    user, _, password = credentials.partition(":")
    auth = {"username": user or None, "password": password or None} if credentials else {}
    asking = {name: value for name, value in options.items() if name != "client_name"}
    sentinel = Sentinel(addresses, sentinel_kwargs=asking, **options)  # type: ignore[no-untyped-call]
    return cast("redis.Redis", sentinel.master_for(service, db=int(database or 0), **auth, **options))  # type: ignore[no-untyped-call]


def text(value: bytes | str) -> str:
    """A reply as text; our clients read bytes, and redis-py's types allow for both."""
    return value.decode() if isinstance(value, bytes) else value


def shown(value: bytes | str) -> str:
    """A reply as text to be looked at: bytes that are no UTF-8 become escapes, and raise nothing."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _address(text: str) -> tuple[str, int] | None:
    """Host and port, None where the port is no number."""
    host, _, port = text.rpartition(":")
    if not host:
        return text, 26379
    return (host, int(port)) if re.fullmatch(r"[0-9]{1,5}", port) else None


_TELLERS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Callable[[Any], Exception | None]], ...] = (
    (
        redis.exceptions.AuthenticationError,
        lambda error: StoreRefusedError(f"Redis refuses the user name or password: {error}"),
    ),
    (redis.exceptions.AuthorizationError, lambda error: StoreRefusedError(f"Redis refuses this user: {error}")),
    (
        redis.exceptions.NoPermissionError,
        lambda error: StoreRefusedError(f"Redis' access list forbids a command: {error}"),
    ),
    (
        (redis.exceptions.OutOfMemoryError, redis.exceptions.ReadOnlyError),
        lambda error: StoreUnavailableError(f"Redis takes no writes now: {_first_line(error)}"),
    ),
    (redis.exceptions.ResponseError, _of_response),
    ((redis.exceptions.RedisError, OSError), _of_connection),
    (ValueError, _of_value),
)
"""What an error means, the first that fits."""
