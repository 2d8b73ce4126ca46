"""One transaction on a SQLite file that several processes share.

Rule: a connection lives as long as its transaction. Workers fork, and no connection survives that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def transaction(path: Path, tables: Sequence[str]) -> Iterator[sqlite3.Connection]:
    """Hold the file alone within the block; what was done is kept unless the block raises.

    Makes the file and its tables at first use. Waits up to 20 s for others, then raises sqlite3.OperationalError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=20, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        try:
            for table in tables:
                db.execute(f"CREATE TABLE IF NOT EXISTS {table}")
            yield db
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
