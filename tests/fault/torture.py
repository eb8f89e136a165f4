"""torture: everything breaks, again and again, while people write; and one oracle for all of it.

Every committed event at least once (G1, G4), first deliveries in the order of each
stream (G6), the checkpoint never beyond what the broker has (G4), duplicates per
failure at most window.events + window.unsaved (G7), the daemon alive (G10).

PENSTOCK_TORTURE_SECONDS (60) of failures; PENSTOCK_TORTURE_SEED replays their order.
"""

import json
import os
import random
import sys
import time

from penstock import Proxy, wait_until
from writers import SCHEMA, Writers

SECONDS = float(os.environ.get("PENSTOCK_TORTURE_SECONDS", "60"))
SEED = os.environ.get("PENSTOCK_TORTURE_SEED") or str(random.randrange(1 << 30))
EVENTS_AT_LEAST = 20000
WINDOW, UNSAVED = 300, 1000


class Deliveries:
    """What one queue or topic has seen, in its order."""

    def __init__(self, name):
        self.name = name
        self.times = {}         # id -> how often
        self.versions = {}      # stream -> version of its last first delivery
        self.history = {}       # stream -> what came of it, for the report
        self.inversions = []
        self.total = 0
        self.gone = set()       # ids that somebody may have deleted before they were seen here,
        self.gone_at_most = 0   # and how many of them had been confirmed
        self.excused = {}       # stream -> up to this version a later one may come first

    def add(self, messages, when):
        for m in messages:
            self.total += 1
            self.times[m.id] = self.times.get(m.id, 0) + 1
            stream, version = m.attribute("streamid"), int(m.attribute("streamversion"))
            history = self.history.setdefault(stream, [])
            history.append((when, version, m.attribute("position"), m.place))
            if self.times[m.id] > 1:
                continue
            if self.excused.get(stream, 0) < version < self.versions.get(stream, 0):
                self.inversions.append((f"stream {stream}: {version} after {self.versions[stream]}", history[-40:]))
            self.versions[stream] = version

    def duplicates(self):
        return self.total - len(self.times)

    def missing(self, wanted):
        return set(wanted) - self.times.keys() - self.gone

    def lost(self, wanted):
        """At the end: what should have come."""
        absent = set(wanted) - self.times.keys()
        return self.missing(wanted) if len(absent & self.gone) <= self.gone_at_most else absent


class Torture:
    """To be mixed into a story: what is done to daemon, database and network, and the oracle.

    The story has `prepare_broker`, which returns the proxy on the way to it, `to_all` and
    `to_copies`, the destinations of every event and of those of type order.paid, `drain`,
    which gives what came there to `main` and `copies`, and adds FAILURES of its own.
    """

    own_servers = True
    mode = "snapshot"

    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        self.main, self.copies = Deliveries("main"), Deliveries("second")
        self.failures = 0
        self.now = "start"      # the failure that goes on
        self.db.create_event_table()
        self.db.sql(SCHEMA)
        self.database_proxy, self.broker_proxy = Proxy("127.0.0.1", self.postgres.pgport), self.prepare_broker()
        for proxy in (self.database_proxy, self.broker_proxy):
            self.addCleanup(proxy.close)
        self.penstockd = self.daemon(self.torture_configuration())

    def torture_configuration(self):
        c = self.configuration({"orders": self.forwarder(
            source={"mode": self.mode}, sink={"ack_timeout": "2s"}, window={"events": WINDOW, "unsaved": UNSAVED},
            retry={"initial": "20ms", "max": "500ms"},
            rules=[{"name": "paid", "filter": {"exact": {"type": "order.paid"}}, "continue": True, "to": self.to_copies},
                   {"name": "all", "to": self.to_all}])},
            db_port=self.database_proxy.port, broker_port=self.broker_proxy.port)
        c["connections"]["db"]["postgresql"].update({"connect_timeout": "2s", "statement_timeout": "2s"})
        return c

    # What can be done to it. Each leaves everything as it should be again. ----------

    def kill_daemon(self):
        self.penstockd.kill()
        self.look_at_checkpoint()
        self.penstockd.start()

    def kill_daemon_twice(self):
        self.penstockd.kill()
        self.penstockd.start()
        time.sleep(self.rng.random() * 0.2)     # somewhere in its start
        self.penstockd.kill()
        self.penstockd.start()
        self.failures += 1

    def stop_daemon(self):
        wait_until(self.penstockd.status)       # before it has begun, a SIGTERM just ends it
        self.assertIn(self.penstockd.stop(), (0, 1))
        self.look_at_checkpoint()
        self.penstockd.start()

    def restart_database(self):
        self.db.close()
        self.postgres.restart("fast")

    def restart_database_at_once(self):
        self.db.close()
        self.postgres.restart("immediate")

    def kill_database(self):
        self.db.close()
        self.postgres.kill()
        self.postgres.start()

    def cut_broker(self):
        self.broker_proxy.cut()

    def cut_database(self):
        self.database_proxy.cut()

    def cut_both(self):
        self.broker_proxy.cut()
        self.database_proxy.cut()
        self.failures += 1

    def refuse_both(self):
        self.broker_proxy.refuse()
        self.database_proxy.refuse()
        self.failures += 1
        time.sleep(1)
        self.broker_proxy.resume()
        self.database_proxy.resume()

    def stall(self, proxy, **direction):
        proxy.stall(**direction)
        time.sleep(self.rng.choice([0.5, 5]))   # shorter and longer than every deadline
        proxy.resume()

    def stall_to_broker(self):
        self.stall(self.broker_proxy, up=True)

    def stall_from_broker(self):
        self.stall(self.broker_proxy, down=True)

    def stall_to_database(self):
        self.stall(self.database_proxy, up=True)

    def stall_from_database(self):
        self.stall(self.database_proxy, down=True)

    FAILURES = [kill_daemon, kill_daemon_twice, stop_daemon, restart_database, restart_database_at_once, kill_database,
                cut_broker, cut_database, cut_both, refuse_both, stall_to_broker, stall_from_broker, stall_to_database,
                stall_from_database]
    CHEAP = [kill_daemon, kill_daemon_twice, cut_broker, cut_database, cut_both]

    # The oracle. --------------------------------------------------------------------

    def behind(self, cursor):
        """What a cursor leaves behind, as a condition on rows."""
        if self.mode == "gaps":
            if cursor["position"] is None:
                return "false"
            ranges = [(-2**63, int(r[1:]) - 1) if r[0] == "<" else (int(r.split("-")[0]), int(r.split("-")[-1]))
                      for r in cursor["open"]] + self.db.sql("SELECT first, last FROM penstock.gap")
            return f"position <= {cursor['position']}" + "".join(f" AND position NOT BETWEEN {a} AND {b}" for a, b in ranges)
        condition = f"pg_visible_in_snapshot(xid, '{cursor['s']}'::pg_snapshot)"
        if "n" in cursor:
            condition += (f" OR pg_visible_in_snapshot(xid, '{cursor['n']}'::pg_snapshot) "
                          f"AND position <= {cursor['position']}")
        return condition

    def look_at_checkpoint(self):
        """While no daemon runs: what the checkpoint leaves behind, the broker has."""
        self.broker_proxy.cut()     # nothing is under way any more
        started = self.db.value("SELECT to_regclass('penstock.checkpoint')")
        row = self.db.sql("SELECT cursor::jsonb FROM penstock.checkpoint") if started else None
        self.drain()
        if not row:
            return
        cursor = row[0][0]
        settled = self.db.sql(f"SELECT id FROM event WHERE {self.behind(cursor)}")
        ahead = self.main.missing(id for (id,) in settled)
        self.assertEqual(sorted(ahead)[:5], [], f"{len(ahead)} events behind the checkpoint {cursor} never came")

    def look_at_deliveries(self):
        for deliveries in (self.main, self.copies):
            self.assertEqual(deliveries.inversions[:2], [], f"order of streams in {deliveries.name}")
        self.assertLessEqual(self.main.duplicates(), self.failures * (WINDOW + UNSAVED))

    def moving(self):
        """The daemon has connected again and something new was confirmed or there is nothing to do."""
        f = self.penstockd.status()
        return f and f["source"]["connected"] and f["sink"]["connected"] and (
            f["state"] == "idle" or f["counts"]["confirmed"] > 0)

    def test_nothing_is_lost_reordered_or_passed_over(self):
        print(f"\n  torture of {SECONDS:g} s, seed {SEED}", file=sys.stderr)
        writers = Writers(self.db, 12, SEED, pause=0.08)
        writers.start()
        self.addCleanup(writers.stopping.set)
        end = time.monotonic() + SECONDS
        todo = self.rng.sample(self.FAILURES, len(self.FAILURES))      # each at least once
        while todo:
            failure = todo.pop()
            if not todo and time.monotonic() < end:
                todo = self.rng.sample(self.FAILURES + self.CHEAP, len(self.FAILURES + self.CHEAP))
            self.failures += 1
            self.now = f"{self.failures} {failure.__name__}"
            failure(self)
            time.sleep(self.rng.random() * 0.5)
            self.assertTrue(self.penstockd.alive(), f"it ended after {failure.__name__}: {self.penstockd.log()[-2000:]}")
            try:
                wait_until(self.moving, 30, f"delivering again after {failure.__name__}")
            except AssertionError:
                print(json.dumps(self.penstockd.status(), indent=1), file=sys.stderr)
                raise
            self.drain()
            self.look_at_deliveries()
            writers.check()
        wait_until(lambda: self.drain() or self.db.value("SELECT count(*) FROM event") >= EVENTS_AT_LEAST, 120,
                   "enough was written", every=0.2)
        writers.stop()

        def everything_behind_the_checkpoint():
            self.drain()
            cursor = self.db.sql("SELECT cursor::jsonb FROM penstock.checkpoint")[0][0]
            return "n" not in cursor and not self.db.value(
                f"SELECT count(*) FROM event WHERE NOT ({self.behind(cursor)})")
        wait_until(everything_behind_the_checkpoint, 60, "the checkpoint at the end", every=0.2)
        self.assertEqual(self.penstockd.stop(), 0)
        self.look_at_checkpoint()
        self.look_at_deliveries()
        committed = {id for (id,) in self.db.sql("SELECT id FROM event")}
        paid = {id for (id,) in self.db.sql("SELECT id FROM event WHERE type = 'order.paid'")}
        for deliveries, wanted in ((self.main, committed), (self.copies, paid)):
            lost = deliveries.lost(wanted)
            self.assertEqual(sorted(lost)[:5], [], f"{len(lost)} of {len(wanted)} never came to {deliveries.name}")
            self.assertEqual(deliveries.times.keys() - wanted, set(), "events that were never committed")
        burnt = self.db.value("SELECT last_value FROM event_position_seq") - len(committed)
        print(f"  {len(committed)} events committed by {sum(writers.commits)} transactions, {burnt} positions burnt, "
              f"{self.failures} failures: 0 lost, 0 out of order, {self.main.duplicates()} duplicates", file=sys.stderr)
