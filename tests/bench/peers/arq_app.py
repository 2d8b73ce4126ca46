"""arq: 50 jobs at once in each process, polled for a hundred times a second; run as a script it sends COUNT."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings

REDIS = RedisSettings(unix_socket_path=os.environ["RQBENCH_SOCKET"])


async def nothing(ctx: dict[str, Any], number: int) -> None: ...


class WorkerSettings:
    functions = (nothing,)
    redis_settings = REDIS
    max_jobs = 50
    poll_delay = 0.01


async def send(count: int) -> None:
    pool = await create_pool(REDIS)
    for start in range(0, count, 100):
        await asyncio.gather(*(pool.enqueue_job("nothing", number) for number in range(start, start + 100)))


if __name__ == "__main__":
    asyncio.run(send(int(sys.argv[1])))
