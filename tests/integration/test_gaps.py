"""Mode gaps: a table as it is, without a transaction-id column; what waits, for whom, and what survives a kill."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, main, wait_until

INSERT = "INSERT INTO event (id, type, streamid, data) VALUES (%s, 'a.b', %s, '{}') RETURNING position"


class Gaps(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event DROP xid")

    def session(self, application="billing"):
        """A connection that is used by hand."""
        connection = self.db.connect()
        self.addCleanup(connection.close)
        cursor = connection.cursor()
        cursor.execute("SELECT set_config('application_name', %s, false)", (application,))
        connection.commit()
        return connection, cursor

    def gaps(self):
        return [(first, last) for first, last in self.db.sql("SELECT first, last FROM penstock.gap ORDER BY first")]

    def insert(self, id, stream="s"):
        return self.db.value(INSERT, str(id), stream)


class Late(Gaps):
    def test_a_late_commit_comes_late_and_holds_nothing_up(self):
        connection, cursor = self.session()
        d = self.daemon_for()
        cursor.execute(INSERT, ("1", "a"))
        for i in range(2, 12):
            self.insert(i, "b")
        self.assertEqual(self.receive_ids(10), [str(i) for i in range(2, 12)])
        self.assertEqual(d.status()["source"]["mode"], "gaps")
        connection.commit()
        self.assertEqual(self.receive_ids(1), ["1"])

    def test_the_open_gap_is_in_the_checkpoint_and_a_kill_does_not_lose_it(self):
        connection, cursor = self.session()
        self.insert(1)
        d = self.daemon_for()
        self.receive(1)
        cursor.execute(INSERT, ("2", "a"))
        self.insert(3, "b")
        self.receive(1)
        wait_until(lambda: '"open": ["2"]' in self.db.checkpoint()["cursor"])
        d.kill()
        connection.commit()
        d.start()
        self.assertEqual(self.receive_ids(1), ["2"])

    def test_a_rolled_back_position_is_forgotten(self):
        connection, cursor = self.session()
        d = self.daemon_for(source={"gaps": {"retention": "0s"}})
        self.insert(1)
        cursor.execute(INSERT, ("2", "a"))
        connection.rollback()
        self.insert(3)
        self.assertEqual(self.receive_ids(2), ["1", "3"])
        wait_until(lambda: d.status()["source"]["gaps"] == {"open": 0, "dead": 0, "dropped": 0})
        self.insert(4)
        self.receive(1)
        wait_until(lambda: '"position": 4, "open": []' in self.db.checkpoint()["cursor"])


class Early(Gaps):
    """Positions drawn before the insert takes its lock: only the retention finds them."""

    def test_a_dead_gap_is_stored_and_its_row_comes_all_the_same(self):
        early = self.db.value("SELECT nextval('event_position_seq')")
        d = self.daemon_for()
        self.insert(2)
        self.receive(1)
        wait_until(lambda: d.status()["source"]["gaps"]["dead"] == 1)
        self.insert(3)
        self.receive(1)
        wait_until(lambda: self.gaps() == [(-2**63, early)])
        d.kill()
        self.db.sql("INSERT INTO event (position, id, type) VALUES (%s, 'early', 'a.b')", early)
        d.start()
        self.assertEqual(self.receive_ids(1), ["early"])
        self.insert(4)
        self.receive(1)
        self.wait_saved(4)
        wait_until(lambda: self.gaps() == [(-2**63, early - 1)])
        d.stop()
        d.start()
        self.insert(5)
        self.assertEqual(self.receive_ids(1), ["5"])

    def test_when_the_retention_is_over_the_gap_leaves(self):
        self.insert(1)
        self.db.value("SELECT nextval('event_position_seq')")
        d = self.daemon_for(source={"gaps": {"retention": "1s"}})
        self.insert(3)
        self.receive(2)
        wait_until(lambda: d.status()["source"]["gaps"]["dead"] > 0)
        wait_until(lambda: d.status()["source"]["gaps"]["dead"] == 0)
        self.insert(4)
        self.receive(1)
        wait_until(lambda: self.gaps() == [])

    def test_a_new_forwarder_of_an_old_name_begins_without_its_gaps(self):
        self.daemon_for().wait_state("idle")
        self.db.sql("INSERT INTO penstock.gap (forwarder, first, last, until) VALUES ('other', 5, 6, now()), ('orders', 5, 6, now())")
        self.daemons[0].stop()
        self.db.sql("DELETE FROM penstock.checkpoint")
        self.daemons[0].start().wait_state("idle")
        self.assertEqual(self.gaps(), [(5, 6)])


class Held(Gaps):
    def hold(self, cursor):
        self.insert(1)
        cursor.execute(INSERT, ("2", "a"))
        self.insert(3, "b")

    def test_the_session_that_keeps_a_gap_open_is_named(self):
        connection, cursor = self.session("billing")
        self.hold(cursor)
        d = self.daemon_for()
        self.receive(2)
        status = d.wait_state("held")
        pid = connection.info.backend_pid
        self.assertIn(f"position 2 may still be filled by pid {pid} (billing, user penstock)", status["reason"])
        self.assertIn("'idle in transaction'", status["reason"])
        self.assertEqual(status["resumes"], f"when pid {pid} ends its transaction")
        culprit = status["culprit"]
        self.assertEqual((culprit["kind"], culprit["pid"], culprit["application"], culprit["user"], culprit["position"]),
                         ("transaction", pid, "billing", "penstock", 2))
        self.assertIsNone(culprit["prepared"])
        self.assertRegex(culprit["since"], r"^\d{4}-\d\d-\d\dT")
        self.assertEqual(status["source"]["gaps"]["open"], 1)
        self.insert(4, "c")
        self.assertEqual(self.receive_ids(1), ["4"])
        connection.commit()
        self.assertEqual(self.receive_ids(1), ["2"])
        d.wait_state("idle", "delivering")
        d.wait_log(rf"no gap waits for pid {pid} \(billing, user penstock\) any more, after [\d.]+ s")

    def test_a_prepared_transaction_is_named_by_its_gid_and_survives_a_restart_of_the_server(self):
        connection, cursor = self.session()
        self.hold(cursor)
        cursor.execute("PREPARE TRANSACTION 'order 7'")
        d = self.daemon_for()
        self.receive(2)
        culprit = d.wait_state("held")["culprit"]
        self.assertEqual((culprit["prepared"], culprit["pid"], culprit["user"]), ("order 7", None, "penstock"))
        d.wait_log("prepared transaction 'order 7'")
        connection.close()
        self.db.close()
        self.postgres.restart()
        self.insert(4, "c")
        self.assertEqual(self.receive_ids(1), ["4"])
        wait_until(lambda: d.status()["state"] == "held" and d.status()["culprit"]["prepared"] == "order 7", 20)
        self.db.sql("COMMIT PREPARED 'order 7'")
        self.assertEqual(self.receive_ids(1), ["2"])

    def test_a_role_that_may_not_see_other_sessions_says_which_grant_is_missing(self):
        self.db.sql("DROP ROLE IF EXISTS relay; CREATE ROLE relay LOGIN")
        connection, cursor = self.session()
        self.hold(cursor)
        d = self.daemon()
        self.receive(2)
        d.stop()
        self.db.sql("""GRANT USAGE ON SCHEMA penstock TO relay; GRANT ALL ON ALL TABLES IN SCHEMA penstock TO relay;
            GRANT SELECT ON event TO relay; GRANT SELECT ON event_position_seq TO relay""")
        configuration = self.configuration()
        postgresql = configuration["connections"]["db"]["postgresql"]
        postgresql["conninfo"] = postgresql["conninfo"].replace("user=penstock", "user=relay")
        self.assertIn("user=relay", postgresql["conninfo"])
        d.write(configuration)
        d.start()
        status = d.wait_state("held")
        self.assertIn(f"pid {connection.info.backend_pid} (billing, user penstock); its state is hidden from us: GRANT "
                      "pg_read_all_stats", status["reason"])
        self.assertIsNone(status["culprit"]["state"])

    def test_who_only_reads_vacuums_or_writes_elsewhere_is_not_blamed(self):
        reader, reading = self.session("reader")
        reading.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reading.execute("SELECT count(*) FROM event")
        self.db.sql("CREATE TABLE other (n int)")
        writer, writing = self.session("writer")
        writing.execute("INSERT INTO other VALUES (1)")
        self.insert(1)
        self.db.value("SELECT nextval('event_position_seq')")
        d = self.daemon_for()
        self.insert(3)
        self.receive(2)
        wait_until(lambda: d.status()["source"]["gaps"]["open"] == 0)
        self.db.sql("VACUUM event")


class Moved(Gaps):
    def test_a_sequence_that_was_wound_back_is_a_state_of_its_own(self):
        d = self.daemon_for()
        for i in range(1, 6):
            self.insert(i)
        self.receive(5)
        self.wait_saved(5)
        self.db.sql("TRUNCATE event RESTART IDENTITY")
        status = d.wait_state("ahead", seconds=20)
        self.assertIn("it is at position 5, and the table's sequence has given out none above 0", status["reason"])

    def test_a_table_made_anew_is_looked_at_again(self):
        d = self.daemon_for()
        for i in range(1, 6):
            self.insert(i)
        self.receive(5)
        self.wait_saved(5)
        self.db.sql("DROP TABLE event")
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event DROP xid")
        self.assertIn("beyond this table", d.wait_state("ahead", seconds=20)["reason"])

    def test_now_means_what_is_committed_from_now_on(self):
        connection, cursor = self.session()
        self.insert(1)
        cursor.execute(INSERT, ("2", "a"))
        self.insert(3)
        d = self.daemon_for(source={"start": "now"})
        d.wait_state("idle", "held")
        self.insert(4)
        self.assertEqual(self.receive_ids(1), ["4"])
        connection.commit()
        self.assertEqual(self.receive_ids(1), ["2"])

    def test_a_start_position_is_the_first_one_wanted(self):
        connection, cursor = self.session()
        for i in range(1, 6):
            self.insert(i)
        cursor.execute(INSERT, ("6", "a"))
        self.insert(7, "b")
        self.daemon_for(source={"start": {"position": 4}})
        self.assertEqual(sorted(self.receive_ids(3)), ["4", "5", "7"])
        connection.commit()
        self.assertEqual(self.receive_ids(1), ["6"])


if __name__ == "__main__":
    main()
