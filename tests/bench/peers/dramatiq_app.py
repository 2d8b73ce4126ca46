"""dramatiq with its Redis broker; run as a script it sends COUNT."""

from __future__ import annotations

import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=f"unix://{os.environ['RQBENCH_SOCKET']}"))


@dramatiq.actor
def nothing(number: int) -> None: ...


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        nothing.send(number)
