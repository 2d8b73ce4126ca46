"""The only place where parts meet: real clocks, real Redis, the beat and what it is told.

Starting a beat waits for Redis as long as it takes, stores what the app declares, and then runs the loop. What only a
person can mend (a wrong password, an evicting server) ends the start.
"""

from __future__ import annotations

import getpass
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Sequence

from scheduler.admin import Admin
from scheduler.beat import Beat
from scheduler.bell import Bell
from scheduler.clockcheck import ClockCheck
from scheduler.declared import Declared
from scheduler.failpoint import kill_at
from scheduler.handfire import HandFire
from scheduler.leader import Leader
from scheduler.pacing import BackOff, Seldom
from scheduler.planner import Plan, plan
from scheduler.readers import Reader
from scheduler.reconcile import Diff
from scheduler.report import BeatReport, State
from scheduler.schedule import Schedule
from scheduler.selfaudit import SelfAudit
from scheduler.store import RedisChores, RedisLease, RedisTimetable
from shared.clock import Clock, SystemClock
from shared.errors import RefusedChangeError, RqbeatError, StoreError, StoreUnavailableError
from shared.redisio.connection import Client, check_server, connect
from shared.redisio.dispatch import Promoter
from shared.redisio.presence import Presence
from shared.redisio.primary import PrimaryWatch
from shared.redisio.wake import WakeListener
from shared.settings import Settings

log = logging.getLogger("rqbeat.beat")

DRY_RUN_MOST = 10_000
SAY_SECONDS = 5.0
RECONCILE_SECONDS = 10.0
PRUNE_SECONDS = 5.0
AUDIT_SECONDS = 5.0


def actor() -> str:
    """Who acts, for the control log: user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def open_client(settings: Settings, name: str = "rqbeat") -> Client:
    """A client of the Redis in the settings; nothing is sent yet."""
    return connect(settings.url, name=name)


def open_admin(settings: Settings, clock: Clock | None = None) -> Admin:
    """The admin API on the Redis in the settings."""
    return Admin(open_client(settings), settings.keys, clock or SystemClock(), actor())


def open_handfire(settings: Settings, clock: Clock | None = None) -> HandFire:
    """Firing by hand on the Redis in the settings."""
    return HandFire(open_client(settings), settings.keys, clock or SystemClock(), actor(), settings.keyring)


def plan_due(settings: Settings, clock: Clock | None = None) -> list[Plan]:
    """The plans for what is due now, made and not committed. Raises StoreError."""
    clock = clock or SystemClock()
    timetable = RedisTimetable(open_client(settings), settings.keys, clock)
    batch = timetable.due(clock.now_ms(), DRY_RUN_MOST, DRY_RUN_MOST)
    loaded = timetable.load([row.id for row in batch.rows])
    found = ((row, loaded.get(row.id)) for row in batch.rows if row.status == "active")
    return [plan(entry[1], row.cursor, batch.now) for row, entry in found if isinstance(entry, tuple)]


def open_reader(settings: Settings) -> Reader:
    """The readers on the Redis in the settings."""
    return Reader(open_client(settings), settings.keys)


def build_beat(
    settings: Settings,
    client: Client,
    bell: Bell,
    clock: Clock,
    publish: Callable[[State], None],
    check: ClockCheck | None = None,
    on_state_lost: Callable[[], None] = lambda: None,
) -> Beat:
    """A beat on a client. The wake channel is not listened to yet."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
    keys = settings.keys
    promote, chores = Promoter(client, keys, clock), RedisChores(client, keys)
    admin = Admin(client, keys, clock, f"beat on {socket.gethostname()}")
    return Beat(
        timetable=RedisTimetable(client, keys, clock, settings.keyring),
        leader=Leader(
            RedisLease(client, keys),
            owner,
            clock,
            may_lead=(check or ClockCheck(clock)).agrees,
            on_state_lost=on_state_lost,
        ),
        clock=clock,
        bell=bell,
        observer=BeatReport(publish),
        on_trouble=client.connection_pool.disconnect,
        chores=[
            lambda: promote(polite=False),
            chores.stop_replaced,
            admin.resume_due,
            Seldom(chores.reconcile, RECONCILE_SECONDS, clock),
            Seldom(chores.prune, PRUNE_SECONDS, clock),
            Seldom(SelfAudit(Reader(client, keys)), AUDIT_SECONDS, clock),
        ],
        reached=kill_at(settings.failpoint),
    )


class BeatService:
    """A beat from start to end, in the thread that calls `run`."""

    def __init__(self, settings: Settings, declared: Sequence[Schedule], clock: Clock | None = None) -> None:
        self._settings = settings
        self._declared = declared
        self._clock = clock or SystemClock()
        self._bell = Bell()
        self._client = open_client(settings, "rqbeat-beat")
        self._presence = Presence(self._client, settings.keys, "beat", self._clock)
        self._check = ClockCheck(self._clock)
        self._beat = build_beat(
            settings, self._client, self._bell, self._clock, self._publish, self._check, self._restore
        )
        self._is_stopping = False
        self._refusal = ""
        self._said: State = {}
        self._said_at = 0.0

    def stop(self) -> None:
        """Ask it to end: at once while it waits for Redis, after the commit in hand otherwise."""
        self._is_stopping = True
        self._beat.stop()

    def prepare(self) -> None:
        """Wait for Redis, check it, and store what the app declares. Raises StoreRefusedError."""
        back_off, told = BackOff(), ""
        while not self._is_stopping:
            try:
                self._prepare_once()
            except StoreUnavailableError as error:
                if str(error) != told:
                    log.warning("waiting for Redis at %s: %s", self._settings.shown_url, error)
                told = str(error)
                self._bell.wait(back_off.next())
            else:
                return

    def run(self) -> None:
        """Decide fires until stopped; `prepare` comes first."""
        listener = WakeListener(self._listening_client(), self._settings.keys.wake, self._bell.ring, self._clock)
        watch = PrimaryWatch(self._client, self._clock)
        listener.start()
        watch.start()
        try:
            if not self._is_stopping:
                self._beat.run()
        finally:
            watch.stop()
            listener.stop()
            self._leave()

    def run_once(self) -> None:
        """Decide what is due now; `prepare` comes first. Raises RqbeatError when another beat leads."""
        try:
            if not self._beat.once():
                raise RqbeatError("another beat leads: it decides what is due")
        finally:
            self._leave()

    def _prepare_once(self) -> None:
        for warning in check_server(self._client, self._settings.keys):
            log.warning("%s", warning)
        self._store_declarations()

    def _restore(self) -> None:
        """Redis lost its state: say so once, and store the declarations again, which start from now."""
        log.error("state lost: Redis came back without its data; the declared schedules start from now")
        self._store_declarations()

    def _store_declarations(self) -> None:
        """A refused set leaves the stored one firing; health and the log show it."""
        declared = open_declared(self._settings, self._declared, self._client)
        found = declared.compare()
        try:
            found = declared.apply(found)
        except RefusedChangeError as error:
            self._refusal = f"the app's schedules are not applied: {error}; `rqbeat apply --force` would"
            log.error("%s", self._refusal)  # noqa: TRY400 - one line, no traceback
        else:
            log.info("%d schedules declared: %s", len(self._declared), _summary(found))

    def _listening_client(self) -> Client:
        return open_client(self._settings, "rqbeat-wake")

    def _publish(self, facts: State) -> None:
        """Tell `rqbeat health`, at once when something changed, else every few seconds."""
        trouble = facts["error"] or self._check.problem
        said, now = {**facts, "error": trouble, "refused": self._refusal}, self._clock.monotonic()
        if said == self._said and now - self._said_at < SAY_SECONDS:
            return
        self._said, self._said_at = said, now
        try:
            self._presence.say(said)
        except StoreError as error:
            log.debug("presence not written: %s", error)

    def _leave(self) -> None:
        try:
            self._presence.leave()
        except StoreError as error:
            log.debug("presence not taken back: %s", error)


class RunningBeat:
    """A beat in a thread of its own, for a process that has other things to do."""

    def __init__(self, service: BeatService) -> None:
        self._service = service
        self._thread = threading.Thread(target=service.run, name="rqbeat-beat", daemon=True)

    @classmethod
    def start(cls, settings: Settings, declared: Sequence[Schedule], clock: Clock) -> RunningBeat:
        """Prepare in this thread, then run in another. Blocks until Redis answers."""
        service = BeatService(settings, declared, clock)
        service.prepare()
        running = cls(service)
        running._thread.start()
        return running

    def stop(self) -> None:
        """End the beat and wait for its end."""
        self._service.stop()
        self._thread.join()


def open_declared(settings: Settings, schedules: Sequence[Schedule], client: Client | None = None) -> Declared:
    """What an app declares, on the Redis in the settings."""
    client, clock = client or open_client(settings), SystemClock()
    admin = Admin(client, settings.keys, clock, actor())
    return Declared(schedules, settings.version, Reader(client, settings.keys), admin, clock)


def _summary(found: Diff) -> str:
    counts = (("added", found.add), ("changed", found.change), ("removed", found.remove), ("unchanged", found.same))
    return ", ".join(f"{len(ids)} {name}" for name, ids in counts if ids) or "nothing"
