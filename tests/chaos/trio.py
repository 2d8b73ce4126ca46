"""A primary, a replica and a Sentinel, which can be parted from each other while clients reach them all.

Servers and Sentinel know each other by users of their own, and nobody comes in without a password. Where those users
are refused, their side is cut off: to Sentinel a server that refuses it is as dead as one that is silent, and a replica
that is refused hears nothing more.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from shared.process import die_with_parent
from shared.redisio.connection import connect
from shared.redisio.server import OwnServer, find_server
from tests.integration.conftest import wait_for

USERS = ("watcher", "follower")
SECRET = "of-a-test"  # noqa: S105 - it opens nothing else
CONFIG = """
port {port}
bind 127.0.0.1
dir {folder}
sentinel monitor mymaster 127.0.0.1 {primary} 1
sentinel auth-user mymaster watcher
sentinel auth-pass mymaster {secret}
sentinel down-after-milliseconds mymaster {down_after}
sentinel failover-timeout mymaster 4000
"""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Node:
    """One server of the pair."""

    def __init__(self, folder: Path, port: int, *options: str) -> None:
        folder.mkdir()
        self.port = port
        names = ("--masteruser", "follower", "--masterauth", SECRET, "--repl-diskless-sync-delay", "0")
        self.server = OwnServer(folder, port=port, socket=Path(f"/tmp/rqbeat-{port}.sock"), options=(*names, *options))  # noqa: S108 - a socket's path is short
        self.server.start()
        self.url = f"unix://:{SECRET}@{self.server.socket}"
        with connect(self.server.url) as first:
            first.execute_command("ACL", "SETUSER", "default", "resetpass", f">{SECRET}")
        self.client = redis.Redis.from_url(self.url)  # one that tries again: a change of role ends all connections
        for user in USERS:
            self.client.execute_command("ACL", "SETUSER", user, "on", f">{SECRET}", "allkeys", "allchannels", "+@all")

    def follow(self, primary: Node) -> None:
        self.client.replicaof("127.0.0.1", str(primary.port))
        wait_for(lambda: self.client.info("replication").get("master_link_status") == "up", 10, "a replica in step")

    @contextmanager
    def is_cut_off(self) -> Iterator[None]:
        """Within the block neither Sentinel nor the other server gets through; clients do."""
        for user in USERS:
            self.client.execute_command("ACL", "SETUSER", user, "off")
            self.client.execute_command("CLIENT", "KILL", "USER", user)
        try:
            yield
        finally:
            for user in USERS:
                self.client.execute_command("ACL", "SETUSER", user, "on")

    def close(self) -> None:
        self.client.close()
        self.server.kill()
        self.server.socket.unlink(missing_ok=True)


class Trio:
    """The three of them; `url` asks Sentinel who is primary."""

    def __init__(self, folder: Path, *options: str, down_after: int = 1000) -> None:
        """`options` are those of both servers; after `down_after` ms of silence a server counts as dead."""
        ports = free_ports(3)
        self.primary = Node(folder / "first", ports[0], *options)
        self.replica = Node(folder / "second", ports[1], *options)
        self.replica.follow(self.primary)
        self.url = f"redis+sentinel://:{SECRET}@127.0.0.1:{ports[2]}/mymaster"
        text = CONFIG.format(port=ports[2], folder=folder, primary=ports[0], down_after=down_after, secret=SECRET)
        self._process = self._watch(folder / "sentinel.conf", text)
        self._sentinel = redis.Redis(port=ports[2], socket_timeout=2)
        wait_for(self._knows_the_replica, 15, "Sentinel knows the replica")

    def _watch(self, config: Path, text: str) -> subprocess.Popen[bytes]:
        config.write_text(text)
        me = os.getpid()
        with config.with_suffix(".log").open("wb") as log:
            return subprocess.Popen(
                [find_server(), str(config), "--sentinel"],
                stdout=log,
                stderr=log,
                preexec_fn=lambda: die_with_parent(me),  # noqa: PLW1509 - it only asks for a signal
            )

    def _knows_the_replica(self) -> bool:
        try:
            rows: Any = self._sentinel.execute_command("SENTINEL", "REPLICAS", "mymaster")
        except redis.ConnectionError:
            return False
        return len(rows) == 1 and "slave" in str(rows[0])

    def names(self, node: Node) -> bool:
        """Whether this is the primary, to Sentinel."""
        found: Any = self._sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
        return int(found[1]) == node.port

    def fail_over(self) -> None:
        """As planned: Sentinel promotes the replica, and the primary becomes a replica."""
        self._sentinel.execute_command("SENTINEL", "FAILOVER", "mymaster")

    @contextmanager
    def sentinel_is_silent(self) -> Iterator[None]:
        """Within the block nobody is told anything."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._sentinel.close()
        self._process.kill()
        self._process.wait()
        self.primary.close()
        self.replica.close()
