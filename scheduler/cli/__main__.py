"""`python -P -m scheduler.cli`: the command without its console script, as `dev` starts its children."""

from scheduler.cli import main

main()
