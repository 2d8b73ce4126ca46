-- The last thing of a run: see `ended`. Written after RQ's own record of the run.
--
-- KEYS  1 job   2 registry of failed jobs   3 expired jobs of the queue   4 schedule   5 its stats
--       6 its outstanding jobs   7 its waiting fire   8 wake channel
-- ARGV  1 {id, outcome: finished, failed, retrying, stopped or expired, error, scheduled: whether there is a schedule}
-- returns 1

ended({job = KEYS[1], failed = KEYS[2], expired = KEYS[3], schedule = KEYS[4], stats = KEYS[5],
  outstanding = KEYS[6], waiting = KEYS[7], wake = KEYS[8]}, cmsgpack.unpack(ARGV[1]))
return 1
