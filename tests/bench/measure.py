"""measure: what the benchmarks share: processes measured, servers, a drain by penstockd, rounds in turn."""

import json
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from penstock import BUILD, LOGS, Database, Penstockd, Postgres, wait_until

KEYS = 5000
DRAIN_SECONDS = 900


def cpu_seconds(pid, with_children=False):
    """Of a process; with those of its children, the ended ones too."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(") ")[2].split()
    ticks = sum(int(t) for t in fields[11:15 if with_children else 13])
    if with_children:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            children = f.read().split()
        return ticks / os.sysconf("SC_CLK_TCK") + sum(cpu_seconds(child) for child in children)
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_mb(pid, which):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(rf"{which}:\s+(\d+)", f.read()).group(1)) / 1024


class Measure:
    """PostgreSQL with a table of events, and figures."""

    def __init__(self, rows, rounds, directory, data_bytes):
        self.rows, self.rounds, self.data_bytes = rows, rounds, data_bytes
        self.directory = os.path.join(LOGS, directory)
        self.postgres = Postgres(os.path.join(self.directory, "postgres"))
        self.figures = {}

    def start_postgres(self):
        self.postgres.start("--fsync", "-o", "shared_buffers=512MB", "-o", "max_wal_size=4GB")
        with open(os.path.join(os.path.dirname(self.postgres.pghost), "data", "postmaster.pid")) as f:
            self.postmaster = int(f.readline())
        self.db = Database(self.postgres, "bench")
        self.db.create_event_table()
        self.fill(self.db)

    def fill(self, db):
        db.sql("""INSERT INTO event (id, source, type, time, streamid, streamversion, data)
            SELECT 'event-' || i, '/shop/orders', 'com.acme.order.placed',
                   timestamptz '2026-01-01 10:00:00.123456+00' + i::bigint * 1800 / %s * interval '1 day',
                   'stream-' || i %% %s, i / %s, jsonb_build_object('text', repeat('x', %s))
            FROM generate_series(1, %s) s(i) ORDER BY s.i""", self.rows + 1, KEYS, KEYS, self.data_bytes - 12, self.rows)
        db.sql("VACUUM ANALYZE event")

    def configuration(self, db, connection, destination, source=None, sink=None):
        return {
            "connections": {"db": {"postgresql": {"conninfo": db.conninfo()}}, "out": connection},
            "forwarders": {"bench": {
                "source": {"connection": "db", "table": "event", **(source or {})},
                "sink": {"connection": "out", **(sink or {})},
                "rules": [{"name": "all", "to": destination}]}},
            "checkpoint": {"create": True}}

    def drain_penstock(self, name, configuration, db, others=(), begun=lambda daemon: None):
        """From the first confirm that is seen to the last; the start is measured elsewhere. begun: called then."""
        db.sql("DROP SCHEMA IF EXISTS penstock CASCADE")
        d = Penstockd(os.path.join(self.directory, name), configuration)
        d.start()
        try:
            def confirmed():
                f = d.status("bench")
                return f["counts"]["confirmed"] if f else 0
            first = wait_until(confirmed, 60, every=0.002)
            before = self.processes(d.process.pid, others)
            began = time.monotonic()
            begun(d)
            wait_until(lambda: confirmed() >= self.rows, DRAIN_SECONDS, every=0.02)
            seconds, events = time.monotonic() - began, self.rows - first
            after = self.processes(d.process.pid, others)
            peak = memory_mb(d.process.pid, "VmHWM")
            if d.stop() != 0:
                raise RuntimeError("penstockd did not stop cleanly")
            return {"events_per_second": events / seconds, "rss_mb": peak,
                    **{f"{who}_us": (after[who] - before[who]) * 1e6 / events for who in before}}
        finally:
            d.done()

    def drain_bare(self, command, others=()):
        before = self.processes(None, others)
        told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout)
        after = self.processes(None, others)
        if told["events"] != self.rows:
            raise RuntimeError(f"{command[0]}: {told['events']} of {self.rows} events")
        return {"events_per_second": self.rows / told["seconds"], "rss_mb": told["rss_bytes"] / (1 << 20),
                "cpu_us": told["cpu_seconds"] * 1e6 / self.rows,
                **{f"{who}_us": (after[who] - before[who]) * 1e6 / self.rows for who in before}}

    def processes(self, pid, others):
        """CPU seconds so far: of us, of PostgreSQL, of the others."""
        seconds = {"postgres": cpu_seconds(self.postmaster, with_children=True)}
        seconds.update({name: cpu_seconds(other) for name, other in others})
        if pid is not None:
            seconds["cpu"] = cpu_seconds(pid)
        return seconds

    def in_turn(self, what, runs):
        """Each round runs all of them, so that a slow moment of the machine hits all; medians of the figures, and
        of the rounds' ratios to the first."""
        results = {who: [] for who in runs}
        for _ in range(self.rounds):
            for who, run in runs.items():
                results[who].append(run())
        names = list(runs)
        figures = {who: {k: statistics.median(r[k] for r in rounds) for k in rounds[0]} for who, rounds in results.items()}
        for who in names:
            m = figures[who]
            print(f"{what} {who:9} {m['events_per_second']:9.0f} events/s  µs CPU per event: {m['cpu_us']:.2f}"
                  + "".join(f", {k[:-3]} {m[k]:.2f}" for k in m if k.endswith("_us") and k != "cpu_us")
                  + f"  {m['rss_mb']:.1f} MB peak", flush=True)
        for who in names[1:]:
            for k in ("events_per_second", "cpu_us"):
                ratios = [b[k] / a[k] for a, b in zip(results[names[0]], results[who])]
                figures[who][f"ratio_{k}"] = statistics.median(ratios)
        self.figures[what] = figures
        return figures


def write(figures):
    """Beside what other benchmarks have found."""
    path = os.path.join(BUILD, "bench.json")
    found = {}
    if os.path.exists(path):
        with open(path) as f:
            found = json.load(f)
    with open(path, "w") as f:
        json.dump({**found, **figures}, f, indent=1)
