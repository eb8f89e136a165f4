"""What it costs the database: plans by index conditions, few statements when idle, two connections, no open transaction."""

import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, main, stays, wait_until

# PENSTOCK_TEST_ROWS=10000000 for the size of tailing's measurements.
ROWS = int(os.environ.get("PENSTOCK_TEST_ROWS", "60000"))


class Cost(Case):
    def setUp(self):
        super().setUp()
        # Each statement's plan goes to the server's log, as it was executed.
        self.db.sql(f"""ALTER DATABASE "{self.db.name}" SET session_preload_libraries = 'auto_explain';
            ALTER DATABASE "{self.db.name}" SET auto_explain.log_min_duration = 0;
            ALTER DATABASE "{self.db.name}" SET auto_explain.log_analyze = on;
            ALTER DATABASE "{self.db.name}" SET auto_explain.log_timing = off;
            ALTER DATABASE "{self.db.name}" SET compute_query_id = off""")
        self.db.close()

    def mark(self):
        return os.path.getsize(os.path.join(self.postgres.directory, "postgres.log"))

    def plans(self, since):
        """(statement, plan) of what the tail connection has run since, without the inspection's."""
        with open(os.path.join(self.postgres.directory, "postgres.log"), encoding="utf-8", errors="replace") as f:
            f.seek(since)
            text = f.read()
        entries = re.split(r"(?m)^(?=\d{4}-\d\d-\d\d )", text)
        found = []
        for entry in entries:
            m = re.match(r".* penstock/orders/tail .*?duration: [\d.]+ ms  plan:\n\tQuery Text: (.*?)\n\t(?=[A-Z].*\(cost)", entry,
                         re.S)
            if m and "pg_backend_pid()" in m.group(1) and " AS e" in m.group(1) and "penstock_explain" not in m.group(1):
                found.append((m.group(1), entry[m.end():]))
        return found

    @staticmethod
    def scans(plan):
        """(node, rows it looked at, has it an index condition) of the event table and its partitions."""
        nodes = []
        for line in plan.splitlines():
            node = re.match(r"[\t ]*(?:->  )?([A-Z].*? (?:on|using) .*?)  \(cost=\S+ rows=\d+ width=\d+\) "
                            r"\((?:never executed|actual rows=(\d+) loops=(\d+))\)", line)
            if node:
                nodes.append([node.group(1), int(node.group(2) or 0) * int(node.group(3) or 0), False])
            elif nodes and "->" not in line:
                removed = re.search(r"Rows Removed by Filter: (\d+)", line)
                nodes[-1][1] += int(removed.group(1)) if removed else 0
                nodes[-1][2] |= "Index Cond: " in line
            else:
                nodes.append(["", 0, True])
        return [n for n in nodes if re.search(r" on event(_\d+)? ", n[0] + " ")]

    def check_plans(self, since, at_most):
        """No walk over the table or an index; no scan of it looks at more rows than were asked for."""
        plans = self.plans(since)
        self.assertTrue(plans, "no statement was logged")
        for statement, plan in plans:
            # Where a backlog begins is asked once, from the index alone.
            once = "min(p)" in statement
            scans = self.scans(plan)
            self.assertTrue(scans, plan)
            for node, rows, conditional in scans:
                # The highest position is one row from the index's end.
                last = "Backward" in node and rows <= 1
                self.assertTrue(node.startswith("Index ") and (conditional or last), f"{node} in {plan}")
                self.assertTrue(rows <= at_most or (once and node.startswith("Index Only")), f"{rows} by {node} in {plan}")
        return len(plans)

    def fill(self, table="event"):
        """Old rows that are settled, a backlog behind them."""
        self.db.create_event_table(table)
        self.fill_rows(1, ROWS)

    def fill_rows(self, first, last):
        self.db.sql(f"""INSERT INTO event (id, type, streamid, streamversion, data)
            SELECT i, 'a.b', mod(i, 1000), i, '{{}}' FROM generate_series({first}::bigint, {last}::bigint) i""")
        self.db.sql("ANALYZE event")

    def daemon_of(self, mode):
        c = self.configuration({"orders": self.forwarder(source={"mode": mode, "start": "now"}, sink={"connection": "out"},
                                                         rules=[{"to": {}}], window={"events": 1000})})
        c["connections"]["out"] = {"null": {}}
        return self.daemon(c)

    def run_through(self, mode):
        d = self.daemon_of(mode)
        d.wait_state("idle", seconds=60)
        idle = self.mark()
        for i in range(5):
            self.db.insert(id=f"tail {i}", type="a.b")
            self.wait_saved(self.db.value("SELECT max(position) FROM event"))
        self.check_plans(idle, at_most=1100)
        self.assertEqual(d.stop(), 0)
        last = self.db.value("SELECT max(position) FROM event")
        backlog = ROWS // 10
        for _ in range(10):
            self.fill_rows(last + 1, last + backlog // 10)
            last += backlog // 10
        catching_up = self.mark()
        d.start()
        self.wait_saved(self.db.value("SELECT max(position) FROM event"), seconds=120)
        self.assertGreater(self.check_plans(catching_up, at_most=1100), 3)


class Plans(Cost):
    def test_mode_snapshot_reads_by_index_conditions(self):
        self.fill()
        self.run_through("snapshot")

    def test_mode_gaps_reads_by_index_conditions(self):
        self.fill()
        self.run_through("gaps")

    def test_a_table_of_60_partitions(self):
        self.db.sql("""CREATE TABLE event (position bigserial, id text, source text DEFAULT '/x', type text, streamid text,
                streamversion bigint, data jsonb, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
                PRIMARY KEY (position)) PARTITION BY RANGE (position);
            CREATE INDEX ON event (xid, position)""")
        step = max(ROWS // 40, 100)
        for i in range(60):
            self.db.sql(f"CREATE TABLE event_{i} PARTITION OF event FOR VALUES FROM ({i * step}) TO ({(i + 1) * step})")
        self.fill_rows(1, ROWS)
        self.run_through("snapshot")


class Idle(Cost):
    def transactions(self):
        """Of this database, as far as its sessions have reported them (once a second at most)."""
        admin = self.postgres.connect("postgres")
        admin.autocommit = True
        cursor = admin.cursor()
        cursor.execute("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s", (self.db.name,))
        (count,), = cursor.fetchall()
        admin.close()
        return count

    def check_idle(self, mode):
        self.db.create_event_table()
        self.db.insert_many(100)
        d = self.daemon_of(mode)
        d.wait_state("idle")
        self.assertEqual(self.db.value("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                                       " AND application_name LIKE 'penstock/%'"), 2)
        self.db.close()
        time.sleep(3)           # the wait between polls has grown to poll.max, and all is reported
        before, began = self.transactions(), time.monotonic()
        admin = self.postgres.connect("postgres")
        admin.autocommit = True
        cursor = admin.cursor()

        def nothing_is_open():
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND (state LIKE 'idle in%%'"
                           " OR state = 'idle' AND backend_xmin IS NOT NULL)", (self.db.name,))
            return cursor.fetchone()[0] == 0
        stays(nothing_is_open, 6)
        admin.close()
        rate = (self.transactions() - before) / (time.monotonic() - began)
        self.assertLessEqual(rate, 5)
        self.assertGreater(rate, 0.3)

    def test_mode_snapshot_is_quiet(self):
        self.check_idle("snapshot")

    def test_mode_gaps_is_quiet(self):
        self.check_idle("gaps")


if __name__ == "__main__":
    main()
