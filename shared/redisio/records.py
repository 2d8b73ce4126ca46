"""RQ's records as this project writes and reads them: the fields of a job hash, its dates, the results of its runs."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

from shared.codec import decode
from shared.errors import JobFailedError
from shared.instants import utc_datetime
from shared.options import JobOptions
from shared.retry import Retry

SUCCESSFUL = b"1"  # RQ's number for the result of a run that returned


def stamp(ms: int) -> str:
    """An instant as RQ writes it into a job hash."""
    return utc_datetime(ms).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def job_fields(name: str, options: JobOptions, retry: Retry | None) -> list[str]:
    """The fields of a job hash that are the same for every job of its kind, as a flat list.

    The description is the job's name alone: RQ's own default holds the arguments, which would put secrets into logs.
    """
    fields = {
        "origin": options.queue,
        "description": name,
        "timeout": str(options.timeout),
        "result_ttl": str(options.result_ttl),
        "failure_ttl": str(options.failure_ttl),
        **({"retries_left": str(retry.max)} if retry and retry.max else {}),
    }
    return [text for pair in fields.items() for text in pair]


def returned(job_id: str, entry: Mapping[bytes, bytes]) -> Any:
    """What a run returned, from an entry of the job's result stream. Raises JobFailedError for a run that failed."""
    if entry.get(b"type") != SUCCESSFUL:
        raise JobFailedError(f"job {job_id} failed: {_told(entry.get(b'exc_string', b''))}")
    value = entry.get(b"return_value")
    return None if value is None else decode(base64.b64decode(value))


def last_line(text: str) -> str:
    """The line of a traceback that names the exception; of a group's, the one that names the group."""
    lines = text.strip().splitlines() or [""]
    first_members = [number for number, line in enumerate(lines) if line.startswith("  +-+--")]
    if first_members and lines[-1].strip(" +-") == "":
        return lines[first_members[-1] - 1].removeprefix("  | ")[:500]
    return lines[-1][:500]


def _told(packed: bytes) -> str:
    try:
        text = zlib.decompressobj().decompress(base64.b64decode(packed), 1_000_000).decode(errors="replace")
    except (ValueError, zlib.error):
        return "its error can't be read"
    return last_line(text) or "no error text"
