"""huey with its Redis storage; run as a script it sends COUNT."""

from __future__ import annotations

import os
import sys

from huey import RedisHuey

huey = RedisHuey("bench", url=f"unix://{os.environ['RQBENCH_SOCKET']}")


@huey.task()
def nothing(number: int) -> None: ...


if __name__ == "__main__":
    import huey_app

    for number in range(int(sys.argv[1])):
        huey_app.nothing(number)
