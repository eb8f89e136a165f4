"""Behind PgBouncer: session mode works, transaction mode is told apart and refused with what would mend it."""

import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import psycopg2

from penstock import Case, main, penstock
from pgbouncer import PgBouncer


class Pooler(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def bouncer(self, mode, **settings):
        b = PgBouncer(self.postgres, mode, **settings)
        self.addCleanup(b.close)
        return b

    def behind(self, bouncer, **source):
        c = self.configuration({"orders": self.forwarder(source)})
        c["connections"]["db"]["postgresql"]["conninfo"] = bouncer.conninfo(self.db.name)
        return c


class Session(Pooler):
    def test_everything_works(self):
        b = self.bouncer("session")
        self.db.sql(penstock("schema", "--event-table", "public.event", "--existing", "--listen", "wake")[1])
        self.db.insert_many(5000, streams=50)
        d = self.daemon(self.behind(b, listen="wake", poll={"min": "1ms", "max": "60s"}))
        self.receive(5000)
        self.wait_saved(5000)
        d.wait_state("idle")
        # A large row that does not fit is cancelled through the other connection.
        self.db.sql("""INSERT INTO event (id, type, streamid, data)
            SELECT i, 'a.b', i, json_build_object('x', repeat('y', 3000000)) FROM generate_series(5001, 5010) i""")
        self.receive(10, seconds=30)
        self.db.insert(id="woken", type="a.b")
        self.assertEqual(self.receive_ids(1, seconds=3), ["woken"])
        self.assertEqual(d.status()["counts"]["reconnects"], 0)
        self.assertEqual(d.stop(), 0)

    def test_a_pooler_that_restarts_is_followed(self):
        b = self.bouncer("session")
        d = self.daemon(self.behind(b))
        d.wait_state("idle")
        b.process.kill()
        b.process.wait()
        d.wait_state("disconnected")
        b.start()
        self.db.insert(id="1", type="a.b")
        self.assertEqual(self.receive_ids(1, seconds=20), ["1"])


class Transaction(Pooler):
    def load(self, bouncer, stop):
        """Others that use the pool all the time."""
        while not stop.is_set():
            try:
                connection = psycopg2.connect(bouncer.conninfo(self.db.name))
                connection.autocommit = True
                for _ in range(20):
                    connection.cursor().execute("SELECT pg_sleep(0.002)")
                connection.close()
            except psycopg2.Error:
                pass

    def refused(self, bouncer, word="transaction"):
        self.db.insert_many(10, streams=1)
        d = self.daemon(self.behind(bouncer))
        reason = d.wait_state("refused")["reason"]
        self.assertIn("pool", reason)
        self.assertIn("pool_mode=session", reason)
        self.assertFalse(d.status()["healthy"])
        self.assert_queue_empty()
        return d

    def test_it_is_refused_with_the_mend_and_goes_on_once_mended(self):
        b = self.bouncer("transaction")
        self.refused(b)
        b.reload(pool_mode="session")
        self.receive(10, seconds=45)
        self.wait_saved(10)

    def test_it_is_told_apart_while_others_use_the_pool(self):
        b = self.bouncer("transaction")
        stop = threading.Event()
        threads = [threading.Thread(target=self.load, args=(b, stop)) for _ in range(4)]
        for t in threads:
            t.start()
        try:
            self.refused(b)
        finally:
            stop.set()
            for t in threads:
                t.join()

    def test_statement_mode_is_refused_too(self):
        self.refused(self.bouncer("statement"))


if __name__ == "__main__":
    main()
