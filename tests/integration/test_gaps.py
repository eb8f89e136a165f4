"""Mode gaps: a table as it is, without a transaction-id column; what waits, for whom, and what survives a kill."""

import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, main, stays, wait_until

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

    def daemon_past_five(self):
        d = self.daemon_for()
        for i in range(1, 6):
            self.insert(i)
        self.receive(5)
        self.wait_saved(5)
        return d

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
        wait_until(lambda: '"2"]' in self.db.checkpoint()["cursor"])    # perhaps behind "<1", until that is proven
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


class Alive(Gaps):
    """Nothing but the lock of its writer shows that a position can still be filled: without retention all hangs on it."""

    def tail_past(self, write, table="event"):
        """`write` draws position 1 in a transaction of its own and is given time; then position 2 commits."""
        connection, cursor = self.session()
        wait = write(cursor)
        wait_until(lambda: self.db.value("SELECT last_value FROM event_position_seq WHERE is_called") == 1)
        d = self.daemon_for(source={"gaps": {"retention": "0s"}})
        self.db.sql(f"INSERT INTO {table} (id, type, streamid) VALUES ('2', 'a.b', '5')")
        self.assertEqual(self.receive_ids(1), ["2"])
        is_open = lambda: d.status()["source"]["gaps"]["open"] > 0
        wait_until(is_open)     # what the status tells is up to 100 ms old
        stays(is_open, 1.5, "the gap is open")
        wait()
        connection.commit()
        self.assertEqual(self.receive_ids(1), ["1"])

    def test_a_position_whose_transaction_has_no_id_yet(self):
        self.db.sql("""CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                PERFORM pg_sleep(NEW.subject::float); RETURN NEW; END $$;
            CREATE TRIGGER slow BEFORE INSERT ON event FOR EACH ROW WHEN (NEW.subject IS NOT NULL) EXECUTE FUNCTION slow()""")

        def write(cursor):
            slow = threading.Thread(target=cursor.execute, args=(
                "INSERT INTO event (id, type, subject) VALUES ('1', 'a.b', '3')",))
            slow.start()
            return slow.join
        self.tail_past(write)

    def test_a_position_of_a_prepared_transaction(self):
        def write(cursor):
            cursor.execute("INSERT INTO event (id, type) VALUES ('1', 'a.b')")
            cursor.execute("PREPARE TRANSACTION 'p'")
            return lambda: self.db.sql("COMMIT PREPARED 'p'")
        self.tail_past(write)

    def test_a_position_behind_a_released_savepoint(self):
        def write(cursor):
            cursor.execute("SAVEPOINT a; INSERT INTO event (id, type) VALUES ('1', 'a.b'); RELEASE a")
            return lambda: None
        self.tail_past(write)

    def partition(self):
        self.db.sql("""DROP TABLE event; CREATE TABLE event (position bigserial, id text, source text DEFAULT '/s', type text,
                streamid text, PRIMARY KEY (position, streamid)) PARTITION BY LIST (streamid);
            CREATE TABLE event_1 PARTITION OF event FOR VALUES IN ('1') PARTITION BY LIST (streamid);
            CREATE TABLE event_1_1 PARTITION OF event_1 FOR VALUES IN ('1');
            CREATE TABLE event_rest PARTITION OF event DEFAULT""")

    def test_a_position_that_went_straight_into_a_partition_of_a_partition(self):
        self.partition()

        def write(cursor):
            cursor.execute("INSERT INTO event_1_1 (id, type, streamid) VALUES ('1', 'a.b', '1')")
            return lambda: None
        self.tail_past(write)

    def test_a_position_that_went_through_the_partitioned_table(self):
        self.partition()

        def write(cursor):
            cursor.execute("INSERT INTO event (id, type, streamid) VALUES ('1', 'a.b', '1')")
            return lambda: None
        self.tail_past(write)

    def test_a_position_in_a_child_that_inherits_in_the_old_way(self):
        self.db.sql("CREATE TABLE event_old () INHERITS (event)")

        def write(cursor):
            cursor.execute("INSERT INTO event_old (id, type) VALUES ('1', 'a.b')")
            return lambda: None
        self.tail_past(write)


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
        self.assertGreaterEqual(status["source"]["gaps"]["open"], 1)
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
                      "pg_read_all_stats TO relay;", status["reason"])
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


class Many(Gaps):
    """More positions are missing at the start than can be watched."""

    GAPS = 100050   # source/gaps.h: GAPS_LIVE_MAX is 100000

    def burn(self):
        """Position 1 is drawn and not committed; every second one of those behind is missing."""
        connection, cursor = self.session()
        cursor.execute(INSERT, ("1", "a"))
        self.db.sql("""INSERT INTO event (position, id, type) SELECT 2 * i, 'old', 'a.b' FROM generate_series(1, %s) i;
            SELECT setval('event_position_seq', %s)""", self.GAPS, 2 * self.GAPS)
        return connection

    def waits_for_the_transaction(self, d):
        """On a busy machine it is some time before it has connected, and looked."""
        d.wait_state("starting")
        wait_until(lambda: "the transaction that may still fill them has ended" in (d.status()["reason"] or ""), 20,
                   lambda: f"{d.status()}")
        stays(lambda: d.status()["state"] == "starting", 1, "it waits for the transaction at position 1")
        return d.status()

    def starts_when_it_has_ended(self, d, connection):
        status = self.waits_for_the_transaction(d)
        self.assertRegex(status["reason"], r"the transaction that may still fill them has ended: 1, first of them \d+/\d+ ")
        self.assertIn("when they have ended", status["resumes"])
        connection.commit()
        d.wait_state("idle", "delivering", seconds=30)
        gaps = d.status()["source"]["gaps"]
        self.assertGreaterEqual(gaps["dropped"], 49)
        self.insert("late")
        self.assertEqual(self.receive_ids(1), ["late"])

    def test_a_start_waits_for_whoever_may_still_fill_those_that_are_not_watched(self):
        connection = self.burn()
        self.starts_when_it_has_ended(self.daemon_for(source={"start": "now"}), connection)

    def test_a_start_position_does_too_and_nothing_above_it_is_left_out(self):
        connection = self.burn()
        d = self.daemon_for(source={"start": {"position": 2 * self.GAPS}})
        self.waits_for_the_transaction(d)
        connection.rollback()
        self.assertEqual(self.receive_ids(1), ["old"])
        self.assert_queue_empty()


class Looked(Gaps):
    def test_the_table_is_looked_at_for_the_mode_of_the_checkpoint(self):
        d = self.daemon_for()
        d.wait_state("idle")
        d.stop()
        self.db.sql("""ALTER TABLE event ADD xid xid8 NOT NULL DEFAULT pg_current_xact_id();
            ALTER SEQUENCE event_position_seq CACHE 10""")
        d.start().wait_state("idle")
        d.wait_log("hands out 10 positions at once")     # only mode gaps minds
        self.assertNotRegex(d.log(), "no index on")     # only mode snapshot would
        self.assertEqual(d.status()["source"]["mode"], "gaps")


class Moved(Gaps):
    def test_rows_past_the_sequence_are_told_of_before_anything_is_sent(self):
        """Else the checkpoint would lie beyond the table with the next connection."""
        self.db.sql("INSERT INTO event (position, id, type) VALUES (1000, '1000', 'a.b')")
        for start in ("beginning", "now", {"position": 5}):
            d = self.daemon(self.configuration({"orders": self.forwarder({"start": start})}))
            status = d.wait_state("ahead")
            self.assertIn("positions up to 1000, and its sequence has given out none above 0", status["reason"])
            self.assertIn("setval", status["resumes"])
            d.stop()
        mend = re.search(r"SELECT setval\(.*\);", status["reason"]).group()
        self.db.sql(mend)
        d.start()
        self.assertEqual(self.receive_ids(1), ["1000"])
        self.wait_saved(1000)
        d.stop()
        d.start().wait_state("idle")

    def test_a_sequence_that_was_wound_back_is_a_state_of_its_own(self):
        d = self.daemon_past_five()
        self.db.sql("TRUNCATE event RESTART IDENTITY")
        status = d.wait_state("ahead", seconds=20)
        self.assertIn("since the checkpoint was written, at position 5, the table's sequence was started anew", status["reason"])

    def test_a_table_made_anew_is_looked_at_again(self):
        d = self.daemon_past_five()
        self.db.sql("DROP TABLE event")
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event DROP xid")
        self.assertIn("the table was made anew", d.wait_state("ahead", seconds=20)["reason"])

    def test_a_sequence_that_was_set_back_is_a_state_of_its_own(self):
        d = self.daemon_past_five()
        self.db.sql("SELECT setval('event_position_seq', 4)")
        status = d.wait_state("ahead", seconds=20)
        self.assertIn("it is at position 5, and the table's sequence has given out none above 4", status["reason"])
        self.assertIn("setval", status["resumes"])

    def test_what_is_said_of_ahead_is_of_the_last_look(self):
        """Which comes every 30 s."""
        d = self.daemon_past_five()
        self.db.sql("SELECT setval('event_position_seq', 4)")
        since = d.wait_state("ahead", seconds=20)["since"]
        self.db.sql("TRUNCATE event RESTART IDENTITY")
        wait_until(lambda: "was started anew" in d.status()["reason"], 40)
        status = d.status()
        self.assertEqual((status["state"], status["since"]), ("ahead", since))
        self.assertIn("--upgraded", status["resumes"])
        self.assertNotIn("setval", status["resumes"])

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
