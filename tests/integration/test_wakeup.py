"""Polling and waking up: both change when a row is read, never whether."""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import psycopg2.errors

from penstock import Case, main, penstock, stays, wait_until

CHANNEL = "Events of the shop"
# Longer than any story: what arrives was woken up.
NEVER = {"min": "1ms", "max": "60s"}


class Listening(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def notify_on_insert(self):
        sql = penstock("schema", "--event-table", "public.event", "--listen", CHANNEL, "--only", "listen")[1]
        self.db.sql(sql)
        self.db.sql(sql)        # again does no harm

    def idle_daemon(self, poll=None):
        d = self.daemon_for(source={"listen": CHANNEL, "poll": poll or NEVER})
        d.wait_state("idle")
        # It has settled down: the next read is further away than this test waits.
        wait_until(lambda: self.reads_stand_still(), 20)
        return d

    def reads_stand_still(self):
        before = self.last_read()
        time.sleep(0.7)
        return self.last_read() == before

    def last_read(self):
        return self.db.value("SELECT max(query_start) FROM pg_stat_activity WHERE datname = current_database()"
                             " AND application_name LIKE '%/tail'")

    def keep(self):
        return self.db.value("SELECT max(pid) FROM pg_stat_activity WHERE datname = current_database()"
                             " AND application_name LIKE '%/keep'")


class Wakeups(Listening):
    def test_the_printed_trigger_wakes_an_idle_forwarder(self):
        self.notify_on_insert()
        self.idle_daemon()
        for i in range(3):
            self.db.insert(id=str(i), type="a.b")
            self.assertEqual(self.receive_ids(1, seconds=3), [str(i)])
            wait_until(lambda: self.reads_stand_still(), 20)

    def test_once_for_a_statement_however_many_rows(self):
        self.notify_on_insert()
        listener = self.db.connect()
        listener.autocommit = True
        listener.cursor().execute(f'LISTEN "{CHANNEL}"')
        self.db.insert_many(100)
        listener.cursor().execute("SELECT 1")
        listener.poll()
        self.assertEqual(len(listener.notifies), 1)
        listener.close()

    def test_writers_that_may_not_even_see_our_schema_wake_it(self):
        self.notify_on_insert()
        role = f"writer_{Case.stories}"
        self.db.sql(f"CREATE ROLE {role} LOGIN; GRANT INSERT ON event TO {role};"
                    f"GRANT USAGE ON SEQUENCE event_position_seq TO {role}; GRANT CREATE ON SCHEMA public TO {role}")
        self.idle_daemon()
        self.db.sql(f"SET SESSION AUTHORIZATION {role}; INSERT INTO event (id, type) VALUES ('1', 'a.b')")
        self.assertEqual(self.receive_ids(1, seconds=3), ["1"])
        with self.assertRaises(psycopg2.errors.InsufficientPrivilege):   # else it could set any sequence of ours
            self.db.sql("CREATE TABLE mine (); CREATE TRIGGER t AFTER INSERT ON mine EXECUTE FUNCTION penstock.notify('c', 's')")

    def test_many_writers_notify_seldom_and_all_rows_come_soon(self):
        self.notify_on_insert()
        self.idle_daemon()
        listener = self.db.connect()
        listener.autocommit = True
        listener.cursor().execute(f'LISTEN "{CHANNEL}"')

        def write(first):
            connection = self.db.connect()
            connection.autocommit = True
            for i in range(first, first + 100):
                connection.cursor().execute("INSERT INTO event (id, type) VALUES (%s, 'a.b')", (str(i),))
            connection.close()
        began = time.monotonic()
        threads = [threading.Thread(target=write, args=(1000 * n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        took = time.monotonic() - began
        self.receive(400, seconds=3)
        listener.cursor().execute("SELECT 1")
        listener.poll()
        self.assertGreater(len(listener.notifies), 0)
        self.assertLess(len(listener.notifies), 50 + took * 150)
        listener.close()

    def test_a_wake_up_before_the_row_can_be_seen_is_no_loss(self):
        self.idle_daemon()
        writer = self.db.connect()
        writer.cursor().execute("INSERT INTO event (id, type) VALUES ('1', 'a.b')")
        self.db.sql(f"NOTIFY \"{CHANNEL}\"")
        time.sleep(0.02)        # it has looked, and looks on for a while
        writer.commit()
        writer.close()
        self.assertEqual(self.receive_ids(1, seconds=3), ["1"])

    def test_a_lost_notification_costs_time_only(self):
        self.idle_daemon(poll={"min": "1ms", "max": "1500ms"})
        self.db.insert(id="1", type="a.b")      # nobody notifies
        self.assertEqual(self.receive_ids(1, seconds=5), ["1"])

    def test_a_lost_connection_listens_again(self):
        self.notify_on_insert()
        d = self.idle_daemon()
        lost = self.keep()
        self.db.sql("SELECT pg_terminate_backend(%s)", lost)
        wait_until(lambda: self.keep() not in (None, lost))
        d.wait_state("idle")
        wait_until(lambda: self.reads_stand_still(), 20)
        self.db.insert(id="1", type="a.b")
        self.assertEqual(self.receive_ids(1, seconds=3), ["1"])

    def test_notifications_while_it_reads_and_saves_are_not_overlooked(self):
        self.notify_on_insert()
        self.idle_daemon()
        for i in range(60):
            self.db.insert(id=str(i), type="a.b", streamid="s")
        self.assertEqual(self.receive_ids(60, seconds=5), [str(i) for i in range(60)])
        self.wait_saved(60)

    def test_other_channels_do_not_wake_it(self):
        self.idle_daemon()
        before = self.last_read()
        self.db.sql('NOTIFY other; NOTIFY "events of the shop"')
        stays(lambda: self.last_read() == before, 0.5)


class Polling(Listening):
    def test_without_listen_a_row_is_found_within_poll_max(self):
        d = self.daemon_for(source={"poll": {"min": "1ms", "max": "300ms"}})
        d.wait_state("idle")
        for i in range(5):
            time.sleep(0.4)
            began = time.monotonic()
            self.db.insert(id=str(i), type="a.b")
            self.receive(1)
            self.assertLess(time.monotonic() - began, 1.5)


if __name__ == "__main__":
    main()
