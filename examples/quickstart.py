"""A first app: one job every five seconds, one at every full minute. Both run in workers, wherever those are."""

from scheduler import SchedulerManager

scheduler = SchedulerManager()


@scheduler.every(5, id="tick")
def tick() -> str:
    return "tick"


@scheduler.cron("* * * * *", timezone="Europe/Paris", id="chime")
async def chime() -> None:
    print("a minute has passed", flush=True)
