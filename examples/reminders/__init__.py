"""Reminders for workshops that start soon: an example of a small app around rqbeat.

Arrows go down this list; nothing below knows what stands above it:

    app            what the beat and the workers load: the one schedule
    admin          what people type: synchronous
    jobs           what workers run, and how a reminder becomes a job
    coordinator    which reminders are handed over now
    store, mailer  the two things outside: a SQLite file and a mail service
    domain         what a reminder means: pure, knows no clock
"""
