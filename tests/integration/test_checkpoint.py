"""The checkpoint: where a forwarder begins, what moves it, what it refuses; and that no commit is passed over."""

import json
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, Proxy, main, stays, wait_until


class Checkpoint(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def row_text(self):
        """Every column and the row version: unchanged means not written."""
        return self.db.sql("SELECT xmin::text, c::text FROM penstock.checkpoint c")


class Start(Checkpoint):
    def test_from_the_beginning(self):
        self.db.insert_many(30, streams=1)
        self.daemon_for()
        self.assertEqual(self.receive_ids(30), [str(i) for i in range(1, 31)])

    def test_from_now_on(self):
        self.db.insert_many(30, streams=1)
        d = self.daemon_for(source={"start": "now"})
        d.wait_state("idle")
        self.db.insert_many(5, first=31, streams=1)
        self.assertEqual(self.receive_ids(5), [str(i) for i in range(31, 36)])
        self.assert_queue_empty()

    def test_from_now_on_with_a_transaction_open_at_that_moment(self):
        writer = self.db.connect()
        writer.cursor().execute("INSERT INTO event (id, type, streamid) VALUES ('open', 'a.b', 's')")
        self.db.insert(id="before", type="a.b", streamid="t")
        d = self.daemon_for(source={"start": "now"})
        d.wait_state("idle")
        writer.commit()         # committed after the start, so it is of the stream
        writer.close()
        self.assertEqual(self.receive_ids(1), ["open"])
        self.assert_queue_empty()

    def test_from_a_position(self):
        self.db.insert_many(30, streams=1)
        self.daemon_for(source={"start": {"position": 21}})
        self.assertEqual(self.receive_ids(10), [str(i) for i in range(21, 31)])
        self.assert_queue_empty()

    def test_the_start_is_recorded_before_the_first_publish(self):
        proxy = Proxy("127.0.0.1", self.rabbitmq.amqp_port)
        self.addCleanup(proxy.close)
        proxy.refuse()
        self.db.insert_many(5, streams=1)
        c = self.configuration({"orders": self.forwarder(source={"start": "now"})}, broker_port=proxy.port)
        d = self.daemon(c)
        wait_until(self.db.checkpoint, what="the row, while the broker is away")
        d.kill()
        self.db.insert_many(5, first=6, streams=1)
        proxy.resume()
        d.start()
        self.assertEqual(self.receive_ids(5), [str(i) for i in range(6, 11)])
        self.assert_queue_empty()

    def test_a_row_wins_over_start_now(self):
        self.db.insert_many(5, streams=1)
        d = self.daemon_for()
        self.receive(5)
        self.wait_saved(5)
        self.assertEqual(d.stop(), 0)
        self.db.insert_many(5, first=6, streams=1)
        d.write(self.configuration({"orders": self.forwarder(source={"start": "now"})}))
        d.start()
        self.assertEqual(self.receive_ids(5), [str(i) for i in range(6, 11)])

    def test_a_deleted_row_starts_over(self):
        self.db.insert_many(5, streams=1)
        d = self.daemon_for()
        self.receive(5)
        self.assertEqual(d.stop(), 0)
        self.db.sql("DELETE FROM penstock.checkpoint WHERE forwarder = 'orders'")
        d.start()
        self.assertEqual(self.receive_ids(5), [str(i) for i in range(1, 6)])


class Moves(Checkpoint):
    def test_a_filter_that_excludes_every_row_still_moves_it(self):
        self.db.insert_many(3000)
        d = self.daemon_for(source={"filter": {"exact": {"type": "nothing.like.it"}}})
        self.wait_saved(3000)
        self.assertEqual(d.status()["counts"]["filtered"], 3000)
        self.assert_queue_empty()
        self.db.insert_many(1, first=3001)
        self.wait_saved(3001)

    def test_nothing_is_written_when_idle(self):
        self.db.insert_many(10)
        d = self.daemon_for()
        self.wait_saved(10)
        d.wait_state("idle")
        before = self.row_text()
        # Other transactions move the server's snapshot, but there is nothing to remember.
        for _ in range(20):
            self.db.sql("CREATE TABLE IF NOT EXISTS other (i int); INSERT INTO other VALUES (1)")
        stays(lambda: self.row_text() == before, 1)

    def test_a_clean_stop_saves_and_a_restart_repeats_nothing(self):
        self.db.insert_many(5000)
        d = self.daemon_for()
        wait_until(lambda: self.rabbitmq.count(self.queue) > 500)
        self.assertEqual(d.stop(), 0)
        d.start()
        self.wait_saved(5000)
        messages = self.rabbitmq.take(self.queue)
        self.assertEqual(len(messages), 5000)
        self.assertEqual(len({m.id for m in messages}), 5000)

    def test_kill_9_loses_nothing_and_repeats_at_most_the_window(self):
        self.db.insert_many(20000, streams=100)
        d = self.daemon_for(window={"events": 500, "unsaved": 1000})
        kills = 0
        for share in (1000, 5000, 9000, 15000):
            wait_until(lambda: self.rabbitmq.count(self.queue) > share)
            d.kill()
            kills += 1
            d.start()
        self.wait_saved(20000, seconds=30)
        messages = self.rabbitmq.take(self.queue)
        self.assertEqual(len({m.id for m in messages}), 20000)
        self.assertLessEqual(len(messages) - 20000, kills * 1500)
        seen, last = set(), {}
        for m in messages:
            if m.id not in seen:
                seen.add(m.id)
                stream, version = m.headers["cloudEvents_streamid"], int(m.headers["cloudEvents_streamversion"])
                self.assertGreater(version, last.get(stream, -1), stream)
                last[stream] = version

    def test_the_database_restarts_and_nothing_is_missing(self):
        self.db.insert_many(10000, streams=100)
        d = self.daemon_for(window={"events": 200, "unsaved": 400})
        for share, how in ((500, "fast"), (3000, "immediate")):
            wait_until(lambda: self.rabbitmq.count(self.queue) > share)
            self.db.close()
            self.postgres.restart(how)
        self.wait_saved(10000, seconds=40)
        self.assertTrue(d.alive())
        messages = self.rabbitmq.take(self.queue)
        self.assertEqual(len({m.id for m in messages}), 10000)
        self.assertLessEqual(len(messages) - 10000, 2 * 600)

    def test_what_fails_with_each_read_is_not_sent_again_all_the_time(self):
        d = self.daemon_for()
        d.wait_state("idle")
        self.db.insert(id="1", type="a.b", position=1)
        self.db.insert(id="2", type="a.b", position=2 ** 63 - 1)    # stands for "all" in a place
        d.wait_state("disconnected")
        stays(lambda: d.status()["counts"]["reconnects"] < 10, 4, "reconnects are far apart")
        self.db.sql("DELETE FROM event WHERE id = '2'")
        self.wait_saved(1)
        d.wait_state("idle")

    def test_a_checkpoint_that_cannot_be_saved_is_said_before_it_stops_all_reading(self):
        d = self.daemon(self.configuration({"orders": self.forwarder(window={"unsaved": 10})}, health={"max_age": "1s"}))
        d.wait_state("idle")
        self.db.sql("""CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER full_disk BEFORE UPDATE ON penstock.checkpoint FOR EACH ROW EXECUTE FUNCTION full_disk()""")
        self.db.insert_many(10, streams=1)
        self.receive(10)
        self.assertIn("no space left", d.wait_state("held")["reason"])
        self.db.insert_many(10, first=11, streams=1)
        wait_until(lambda: d.get("/health")[0] == 503)
        self.assertIsNone(d.status()["culprit"])
        self.assertLess(d.log().count("be saved"), 4)
        self.db.sql("DROP TRIGGER full_disk ON penstock.checkpoint")
        self.assertEqual(self.receive_ids(10), [str(i) for i in range(11, 21)])
        self.wait_saved(20)
        d.wait_state("idle")

    def test_a_connection_that_was_ended_is_not_blamed_on_an_older_refusal(self):
        d = self.daemon_for()
        d.wait_state("idle")
        self.db.sql("""CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space'; END $$;
            CREATE TRIGGER no BEFORE UPDATE ON penstock.checkpoint FOR EACH ROW EXECUTE FUNCTION no()""")
        self.db.insert(id="1", type="a.b")
        d.wait_log("can.t be saved")
        self.db.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%%/keep' "
                    "AND datname = current_database()")
        d.wait_log("disconnected: .*(terminating|closed the connection)")

    def test_either_connection_to_the_database_may_be_ended(self):
        d = self.daemon_for()
        d.wait_state("idle")
        for round in range(3):
            for (pid,) in self.db.sql("SELECT pid FROM pg_stat_activity WHERE application_name LIKE '%%penstock%%' "
                                      "AND datname = current_database() ORDER BY backend_start")[round % 2:][:1]:
                self.db.sql("SELECT pg_terminate_backend(%s)", pid)
            self.db.insert_many(10, first=1 + 10 * round, streams=1)
            self.wait_saved(10 + 10 * round)
        ids = [m.id for m in self.rabbitmq.take(self.queue)]
        self.assertEqual(list(dict.fromkeys(ids)), [str(i) for i in range(1, 31)])


class Refused(Checkpoint):
    def with_cursor(self, cursor):
        """A daemon that finds this in its row; the row must be as before when it refuses."""
        self.db.insert_many(5, streams=1)
        d = self.daemon_for()
        self.receive(5)
        self.wait_saved(5)
        self.assertEqual(d.stop(), 0)
        if callable(cursor):
            cursor = cursor(json.loads(self.db.value("SELECT cursor::text FROM penstock.checkpoint")))
        self.db.sql("UPDATE penstock.checkpoint SET cursor = %s", cursor)
        self.db.insert_many(5, first=6, streams=1)
        before = self.place()
        d.start()
        return d, before

    def place(self):
        """What a refusal must leave alone; owner and epoch are the new instance's."""
        return self.db.sql("SELECT cursor, position, system_identifier, updated FROM penstock.checkpoint")

    def assert_refused(self, d, before, word, *states):
        f = d.wait_state(*(states or ("refused",)))
        self.assertRegex(f["reason"], word)
        self.assertFalse(f["healthy"])
        self.assertEqual(self.place(), before)
        self.assert_queue_empty()

    def test_a_row_that_lost_its_number_and_its_cursor(self):
        d = self.daemon_for()
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.db.sql("""ALTER TABLE penstock.checkpoint ALTER position DROP NOT NULL, ALTER cursor DROP NOT NULL;
            UPDATE penstock.checkpoint SET position = NULL, cursor = NULL""")
        before = self.place()
        self.assert_refused(d.start(), before, "cursor")

    def test_a_cursor_of_another_kind(self):
        d, before = self.with_cursor('{"position": 5}')
        self.assert_refused(d, before, "cursor|checkpoint")

    def test_a_cursor_of_a_newer_program(self):
        d, before = self.with_cursor('{"v": 2, "mode": "snapshot", "s": "10:20:"}')
        self.assert_refused(d, before, "newer|version|format")

    def test_a_snapshot_that_is_none(self):
        d, before = self.with_cursor('{"v": 1, "mode": "snapshot", "s": "20:10:"}')
        self.assert_refused(d, before, "20:10:")

    def test_a_checkpoint_beyond_the_server(self):
        def ahead(cursor):
            xmin, xmax, _ = cursor["s"].split(":")
            return json.dumps({**cursor, "s": f"{int(xmin) + 1000000}:{int(xmax) + 1000000}:"})
        d, before = self.with_cursor(ahead)
        self.assert_refused(d, before, "beyond|ahead|later", "ahead")

    def test_a_checkpoint_of_another_cluster(self):
        self.db.insert_many(5, streams=1)
        d = self.daemon_for()
        self.receive(5)
        self.wait_saved(5)
        self.assertEqual(d.stop(), 0)
        self.db.sql("UPDATE penstock.checkpoint SET system_identifier = '7000000000000000000'")
        self.db.insert_many(5, first=6, streams=1)
        before = self.place()
        d.start()
        self.assert_refused(d, before, "system identifier|cluster", "refused", "ahead")

    def test_rows_with_transaction_ids_from_the_future_are_refused(self):
        self.db.insert(id="1", type="a.b", xid="99999999999")
        d = self.daemon_for()
        f = d.wait_state("refused")
        said = re.search("make them old: (UPDATE .*?;)", f["reason"])
        self.assertTrue(said, f["reason"])
        self.assert_queue_empty()
        self.assertEqual(d.stop(), 0)
        self.db.sql(said[1].replace("%", "%%"))    # the statement it says is the way out
        d.start()
        self.assertEqual(self.receive_ids(1), ["1"])


class Commits(Checkpoint):
    """G1: what is committed later at a lower position arrives; what was rolled back is not waited for."""

    def test_a_lower_position_that_commits_later_arrives(self):
        late = self.db.connect()
        late.cursor().execute("INSERT INTO event (id, type, streamid) VALUES ('late', 'a.b', 'l')")
        d = self.daemon_for()
        self.db.insert_many(100, first=1)
        self.assertNotIn("late", self.receive_ids(100))
        late.commit()
        late.close()
        self.assertEqual(self.receive_ids(1), ["late"])
        self.assertEqual(d.stop(), 0)
        d.start()
        d.wait_state("idle")
        self.assert_queue_empty()

    def test_a_lower_position_that_commits_while_the_daemon_is_down_arrives(self):
        late = self.db.connect()
        late.cursor().execute("INSERT INTO event (id, type, streamid) VALUES ('late', 'a.b', 'l')")
        d = self.daemon_for()
        self.db.insert_many(100, first=1)
        self.receive(100)
        d.kill()
        late.commit()
        late.close()
        d.start()
        wait_until(lambda: "late" in [m.id for m in self.rabbitmq.take(self.queue)])

    def test_rolled_back_positions_are_not_waited_for(self):
        for i in range(50):
            connection = self.db.connect()
            connection.cursor().execute("INSERT INTO event (id, type) VALUES ('never', 'a.b')")
            connection.rollback()
            connection.close()
        self.db.insert(id="1", type="a.b")
        self.daemon_for()
        self.assertEqual(self.receive_ids(1), ["1"])

    def test_a_prepared_transaction_arrives_when_it_is_committed(self):
        connection = self.db.connect()
        connection.cursor().execute("INSERT INTO event (id, type, streamid) VALUES ('prepared', 'a.b', 'p')")
        connection.cursor().execute("PREPARE TRANSACTION 'pk'")
        connection.close()
        d = self.daemon_for()
        self.db.insert_many(10)
        self.receive(10)
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.db.sql("COMMIT PREPARED 'pk'")
        d.start()
        self.assertEqual(self.receive_ids(1), ["prepared"])

    def test_a_savepoint_that_was_rolled_back_is_no_event(self):
        connection = self.db.connect()
        cursor = connection.cursor()
        for statement in ("INSERT INTO event (id, type, streamid) VALUES ('1', 'a.b', 's')", "SAVEPOINT a",
                          "INSERT INTO event (id, type, streamid) VALUES ('no', 'a.b', 's')", "ROLLBACK TO a", "SAVEPOINT b",
                          "INSERT INTO event (id, type, streamid) VALUES ('2', 'a.b', 's')", "RELEASE b"):
            cursor.execute(statement)
        connection.commit()
        connection.close()
        self.daemon_for()
        self.assertEqual(self.receive_ids(2), ["1", "2"])
        self.assert_queue_empty()

    def test_writers_side_by_side_while_it_reads(self):
        d = self.daemon_for(window={"events": 100})
        failures = []

        def write(writer):
            try:
                connection = self.db.connect()
                for n in range(60):
                    cursor = connection.cursor()
                    cursor.execute("""INSERT INTO event (id, type, streamid, streamversion)
                        SELECT %s || '-' || i, 'a.b', %s, i FROM generate_series(%s::int, %s::int) i""",
                                   (str(writer), str(writer), n * 5, n * 5 + 4))
                    (connection.rollback if n % 7 == 6 else connection.commit)()
                connection.close()
            except Exception as e:      # noqa: BLE001  (told to the test below)
                failures.append(e)
        threads = [threading.Thread(target=write, args=(w,)) for w in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])
        committed = {id for (id,) in self.db.sql("SELECT id FROM event")}
        messages = self.receive(len(committed), 20)
        self.assertEqual({m.id for m in messages}, committed)
        last = {}
        for m in messages:
            stream, version = m.headers["cloudEvents_streamid"], int(m.headers["cloudEvents_streamversion"])
            self.assertGreater(version, last.get(stream, -1))
            last[stream] = version
        d.wait_state("idle")


class Silence(Checkpoint):
    """What the database does not say or do shows in the state, not only in the log."""

    def test_a_database_that_does_not_answer_is_no_idle(self):
        d = self.daemon_for()
        d.wait_state("idle")
        blocker = self.db.connect()
        blocker.cursor().execute("LOCK TABLE event IN ACCESS EXCLUSIVE MODE")
        state = d.wait_state("disconnected", seconds=15)
        self.assertIn("does not answer a statement", state["reason"])
        blocker.rollback()
        blocker.close()
        d.wait_state("idle")

    def test_a_checkpoint_that_can_not_be_saved_is_no_idle(self):
        self.db.insert_many(1)
        d = self.daemon_for()
        self.wait_saved(1)
        self.db.sql("""CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'not today'; END $$""")
        self.db.sql("CREATE TRIGGER no BEFORE UPDATE ON penstock.checkpoint FOR EACH ROW EXECUTE FUNCTION refuse()")
        self.db.insert_many(5, first=2)
        self.assertIn("not today", d.wait_state("held")["reason"])
        self.assertEqual(len(self.receive(6)), 6)    # it goes out all the same
        stays(lambda: d.log().count("not today") < 4, 1.5, "said once, not ten times a second", every=0.1)
        self.db.sql("DROP TRIGGER no ON penstock.checkpoint")
        self.wait_saved(6)
        d.wait_state("idle")


class ReadOnly(Checkpoint):
    """G2: nothing is held back in the database."""

    def test_no_transaction_stays_open_between_reads(self):
        d = self.daemon_for()
        self.db.insert_many(100)
        self.receive(100)
        d.wait_state("idle")
        stays(lambda: not self.db.sql("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
                                      "AND state LIKE 'idle in%%'"), 0.5)

    def test_a_stalled_broker_holds_no_snapshot(self):
        self.rabbitmq.unbind(self.queue, self.exchange)
        self.db.insert_many(5000, streams=5000)
        d = self.daemon_for(window={"events": 100, "unsaved": 1000})
        d.wait_state("held")
        wait_until(lambda: not self.db.sql(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_xmin IS NOT NULL AND backend_type = 'client backend'"))

    def test_the_table_can_be_locked_while_it_idles(self):
        d = self.daemon_for()
        d.wait_state("idle")
        connection = self.db.connect()
        connection.cursor().execute("SET lock_timeout = '2s'; LOCK TABLE event IN ACCESS EXCLUSIVE MODE")
        connection.cursor().execute("INSERT INTO event (id, type) VALUES ('1', 'a.b')")
        connection.commit()
        connection.close()
        self.assertEqual(self.receive_ids(1), ["1"])


if __name__ == "__main__":
    main()
