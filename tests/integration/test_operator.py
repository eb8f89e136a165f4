"""What operators command: pause, resume, skip. Written down first, done, and still true after kill -9."""

import datetime
import json
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, Proxy, main, penstock, stays, wait_until


class Operator(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def command(self, d, *arguments):
        return penstock("-s", d.socket, *arguments)

    def done(self, d, *arguments):
        code, out, err = self.command(d, *arguments)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def refused(self, d, words, *arguments):
        code, out, err = self.command(d, *arguments)
        self.assertEqual((code, out), (1, ""), err)
        self.assertIn(words, err)

    def journal(self):
        """What stands in penstock.journal, in order: (command, who, reason, before, after)"""
        return self.db.sql("SELECT command, who, reason, before, after FROM penstock.journal ORDER BY id")

    def post(self, d, path, body=None, headers=None):
        code, kind, text = d.ask("POST", path, body, headers)
        self.assertEqual(kind, "application/json" if code == 200 else "application/problem+json")
        return code, json.loads(text)


class Pause(Operator):
    def test_a_paused_forwarder_moves_nothing_until_it_is_resumed(self):
        d = self.daemon()
        d.wait_state("idle")
        self.assertIn("paused", self.done(d, "pause", "orders", "--reason", "moving the broker"))
        f = d.wait_state("paused")
        self.assertIn("penstock resume orders", f["resumes"])
        self.assertTrue(f["healthy"])
        self.assertTrue(self.db.checkpoint()["paused"])
        self.db.insert_many(20)
        stays(lambda: self.rabbitmq.count(self.queue) == 0, 1)
        self.done(d, "resume", "orders")
        self.assertEqual(len(self.receive(20)), 20)
        d.wait_state("idle")
        self.assertFalse(self.db.checkpoint()["paused"])
        rows = self.journal()
        self.assertEqual([r[0] for r in rows], ["pause", "resume"])
        self.assertEqual([(r[3], r[4]) for r in rows], [({"paused": False}, {"paused": True}), ({"paused": True}, {"paused": False})])
        self.assertEqual(rows[0][2], "moving the broker")
        self.assertRegex(rows[0][1], r"^\S+ \(uid %d, pid \d+\)$" % os.getuid())
        d.wait_log(r"operator command pause by .*\(uid \d+, pid \d+\): done: .*moving the broker")

    def test_it_is_idempotent(self):
        d = self.daemon()
        d.wait_state("idle")
        self.assertIn("not paused", self.done(d, "resume", "orders"))
        self.done(d, "pause", "orders")
        self.assertIn("already", self.done(d, "pause", "orders"))
        self.assertEqual([r[0] for r in self.journal()], ["pause"])

    def test_it_survives_kill_9_right_after_the_answer(self):
        d = self.daemon()
        d.wait_state("idle")
        self.done(d, "pause", "orders")
        d.kill()
        self.db.insert_many(5)
        d.start()
        d.wait_state("paused")
        stays(lambda: self.rabbitmq.count(self.queue) == 0, 0.5)
        self.done(d, "resume", "orders")
        d.kill()
        d.start()
        self.assertEqual(self.receive_ids(5), [str(i) for i in range(1, 6)])

    def test_it_survives_a_reconnect_and_a_clean_restart(self):
        d = self.daemon()
        d.wait_state("idle")
        self.done(d, "pause", "orders")
        self.db.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'penstock/%%'")
        d.wait_log("reading event.*\n(?s:.*)reading event")
        d.wait_state("paused")
        self.assertEqual(d.stop(), 0)
        d.start()
        d.wait_state("paused")

    def test_under_load_nothing_is_lost_or_repeated(self):
        d = self.daemon()
        d.wait_state("idle")
        self.db.insert_many(5000, streams=50)
        for _ in range(10):
            self.done(d, "pause", "orders")
            self.done(d, "resume", "orders")
        ids = self.receive_ids(5000, 30)
        self.assertEqual(sorted(map(int, ids)), list(range(1, 5001)))
        self.assert_queue_empty()

    def test_without_the_database_nothing_is_done_and_that_is_said(self):
        proxy = Proxy("127.0.0.1", self.postgres.pgport)
        self.addCleanup(proxy.close)
        d = self.daemon(self.configuration(db_port=proxy.port))
        d.wait_state("idle")
        proxy.refuse()
        d.wait_state("disconnected")
        self.refused(d, "database is away", "pause", "orders")
        proxy.resume()
        d.wait_state("idle", seconds=20)
        self.done(d, "pause", "orders")

    def test_a_database_that_says_nothing_is_answered_in_time(self):
        proxy = Proxy("127.0.0.1", self.postgres.pgport)
        self.addCleanup(proxy.close)
        d = self.daemon(self.configuration(db_port=proxy.port))
        d.wait_state("idle")
        proxy.stall(down=True)
        self.refused(d, "has not answered yet", "pause", "orders")
        self.assertEqual(d.get("/status")[0], 200)
        proxy.resume()
        wait_until(lambda: d.status()["state"] in ("paused", "idle"), 20)
        self.done(d, "pause", "orders")
        d.wait_state("paused")

    def test_an_instance_that_was_overtaken_is_refused_by_the_database(self):
        d = self.daemon()
        d.wait_state("idle")
        self.db.sql("UPDATE penstock.checkpoint SET epoch = epoch + 1, owner = 'another'")
        self.refused(d, "no longer as it was loaded", "pause", "orders")
        self.assertFalse(self.db.checkpoint()["paused"])
        self.assertEqual(self.journal(), [])

    def test_without_the_journal_nothing_is_done(self):
        d = self.daemon()
        d.wait_state("idle")
        self.db.sql("DROP TABLE penstock.journal")
        self.refused(d, "penstock schema", "pause", "orders")
        self.assertFalse(self.db.checkpoint()["paused"])
        self.assertEqual(d.status()["state"], "idle")
        self.assertEqual(d.status()["counts"]["reconnects"], 0)

    def test_many_commands_at_once_are_each_answered(self):
        d = self.daemon()
        d.wait_state("idle")
        answers = []

        def ask(verb):
            answers.append(self.post(d, f"/forwarders/orders/{verb}")[0])
        threads = [threading.Thread(target=ask, args=(["pause", "resume"][i % 2],)) for i in range(40)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(answers), 40)
        self.assertEqual(set(answers) - {200, 503}, set())
        self.assertIn(200, answers)
        self.done(d, "resume", "orders")
        self.db.insert_many(3)
        self.receive(3)

    def test_a_stop_answers_whoever_waits(self):
        proxy = Proxy("127.0.0.1", self.postgres.pgport)
        self.addCleanup(proxy.close)
        d = self.daemon(self.configuration(db_port=proxy.port, stop_timeout="1s"))
        d.wait_state("idle")
        proxy.stall(down=True)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.command(d, "pause", "orders")))
        thread.start()
        stays(thread.is_alive, 0.3)
        d.terminate()
        thread.join(20)
        self.assertIn(answers[0][0], (1, 69))
        self.assertIn(d.wait(), (0, 1))


class Waiting(Operator):
    """What comes to a forwarder that reads nothing is seen all the same, and stays where it is."""

    def waits_since(self, d, position, seconds, at_most=None):
        """The lag is of that row's recorded time."""
        f = wait_until(lambda: (lambda f: f and f["lag"]["oldest_position"] == position and f)(d.status()), 10, "the row is seen")
        self.assertGreaterEqual(f["lag"]["seconds"], seconds)
        self.assertLess(f["lag"]["seconds"], at_most or seconds + 60)
        self.assertTrue(f["lag"]["estimated"])
        return f

    def paused(self, **keys):
        d = self.daemon_for(**keys)
        d.wait_state("idle")
        self.done(d, "pause", "orders")
        d.wait_state("paused")
        return d

    def insert_aged(self, id, age, **columns):
        recorded = self.db.value("SELECT now() - %s::interval", age)
        return self.db.insert(id=id, type="a.b", streamid="s", recorded_at=recorded, **columns)

    def test_rows_that_come_to_a_paused_forwarder_are_lag_and_stay(self):
        self.db.insert_many(5)
        d = self.paused()
        self.receive(5)
        self.wait_saved(5)
        stays(lambda: d.status()["lag"]["seconds"] == 0 and "estimated" not in d.status()["lag"], 1.5, "nothing waits")
        before = self.db.checkpoint()["cursor"]
        self.insert_aged("6", "1 h")
        self.insert_aged("7", "1 min")
        f = self.waits_since(d, 6, 3600)
        self.assertEqual((f["state"], f["healthy"], f["window"]["events"]), ("paused", True, 0))
        self.assertRegex(d.get_text("/metrics")[2], r"penstock_lag_seconds\{forwarder=\"orders\"\} 36\d\d")
        self.assertRegex(self.command(d, "status")[1], r" 1 h 0 min +0[+] ")
        self.assertEqual(self.db.checkpoint()["cursor"], before)
        self.assertEqual(self.rabbitmq.count(self.queue), 0)
        d.kill()
        d.start()
        d.wait_state("paused")
        self.waits_since(d, 6, 3600)
        self.done(d, "resume", "orders")
        self.assertEqual(self.receive_ids(2), ["6", "7"])
        wait_until(lambda: d.status()["lag"]["seconds"] == 0 and d.wait_state("idle"))
        self.assertEqual(d.status()["counts"]["reconnects"], 0)

    def test_a_restart_while_paused_on_an_empty_table_is_no_lag(self):
        d = self.paused()
        d.kill()
        d.start()
        d.wait_state("paused")
        wait_until(lambda: d.status()["lag"]["seconds"] == 0, 10, "it is seen that nothing waits")
        stays(lambda: d.status()["lag"]["seconds"] == 0, 1)

    def test_paused_in_a_backlog_the_first_row_that_was_not_sent_counts(self):
        for i in range(1, 41):
            self.insert_aged(str(i), f"{100 - i} min")
        d = self.daemon_for(window={"events": 4}, sink={"in_flight": 1})
        d.wait_state("delivering", "idle")
        self.receive(4)
        self.done(d, "pause", "orders")
        wait_until(lambda: d.status()["window"]["unsaved"] == 0)
        d.kill()
        d.start()
        d.wait_state("paused")
        next_one = self.db.checkpoint_position() + 1
        if next_one <= 40:
            self.waits_since(d, next_one, (100 - next_one) * 60)
        self.done(d, "resume", "orders")
        d.wait_state("idle")

    def test_in_mode_gaps_a_late_row_counts_too(self):
        self.db.sql("ALTER TABLE event DROP xid")
        late = self.db.connect()
        self.addCleanup(late.close)
        self.insert_aged("1", "3 h")
        cursor = late.cursor()
        cursor.execute("INSERT INTO event (id, type, streamid, recorded_at) VALUES ('2', 'a.b', 's', now() - interval '2 h')")
        self.insert_aged("3", "3 h")
        d = self.daemon_for()
        self.assertEqual(self.receive_ids(2), ["1", "3"])
        self.wait_saved(3)
        self.done(d, "pause", "orders")
        d.wait_state("paused")
        late.commit()
        self.waits_since(d, 2, 7200)
        self.insert_aged("4", "1 h")
        self.done(d, "resume", "orders")
        self.assertEqual(self.receive_ids(2), ["2", "4"])
        d.wait_state("idle")

    def test_without_a_recorded_time_it_has_waited_since_it_was_seen(self):
        self.db.sql("""ALTER TABLE event DROP recorded_at, ALTER xid DROP DEFAULT, ALTER xid TYPE bigint USING xid::text::bigint,
            ALTER xid SET DEFAULT pg_current_xact_id()::text::bigint""")
        d = self.paused()
        self.db.insert(id="1", type="a.b")
        first = self.waits_since(d, 1, 0)
        wait_until(lambda: d.status()["lag"]["seconds"] > first["lag"]["seconds"] + 1)

    def test_a_recorded_time_that_is_none_and_one_to_come_hide_nothing(self):
        d = self.paused()
        self.db.insert(id="1", type="a.b", recorded_at="-infinity")
        first = self.waits_since(d, 1, 0)
        self.assertEqual(d.status()["counts"]["reconnects"], 0)
        self.db.sql("UPDATE event SET recorded_at = now() + interval '1 h'")
        wait_until(lambda: d.status()["lag"]["seconds"] > first["lag"]["seconds"] + 1)

    def test_a_look_costs_a_statement_in_some_seconds(self):
        d = self.paused()
        self.insert_aged("1", "1 h")
        self.waits_since(d, 1, 3600)
        sql = "SELECT query_start FROM pg_stat_activity WHERE application_name LIKE %s"
        tail = lambda: self.db.value(sql, "penstock/orders/tail")
        began = tail()
        stays(lambda: tail() - began < datetime.timedelta(seconds=1), 1.5, "looks once in some seconds")


class Locked(Operator):
    """Somebody has locked the checkpoint's row by hand."""

    def lock(self, statement, application="psql"):
        connection = self.db.connect()
        self.addCleanup(connection.close)
        cursor = connection.cursor()
        cursor.execute("SELECT set_config('application_name', %s, false)", (application,))
        connection.commit()
        cursor.execute(statement)
        cursor.execute("SELECT pg_backend_pid()")
        return connection, cursor.fetchone()[0]

    def held_by(self, d, pid, application="psql"):
        def named():
            f = d.status()
            return f if f and f["state"] == "held" and (f["culprit"] or {}).get("pid") == pid else None
        f = wait_until(named, 15, "it is said who has the lock")
        self.assertIn(f"locked by pid {pid} ({application}, user ", f["reason"])
        self.assertIn("penstock.checkpoint", f["reason"])
        self.assertIn(f"when pid {pid} ends its transaction", f["resumes"])
        self.assertEqual((f["culprit"]["application"], f["culprit"]["state"], f["culprit"]["position"]),
                         (application, "idle in transaction", None))
        return f

    def daemon_of_lease(self, lease):
        d = self.daemon(self.configuration(checkpoint={"create": True, "lease": lease}))
        d.wait_state("idle")
        return d

    def test_who_waits_for_the_lock_as_well_is_not_who_has_it(self):
        d = self.daemon_of_lease("20s")
        holder, pid = self.lock("SELECT FROM penstock.checkpoint WHERE forwarder = 'orders' FOR UPDATE")
        waiters = []
        for name in ("first", "second"):
            connection = self.db.connect()
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                backend = cursor.fetchone()[0]
            waiter = threading.Thread(target=lambda c=connection: c.cursor().execute(
                "SELECT FROM penstock.checkpoint WHERE forwarder = 'orders' FOR UPDATE"), name=name, daemon=True)
            waiter.start()
            waiters.append(waiter)
            wait_until(lambda b=backend: self.db.value("SELECT cardinality(pg_blocking_pids(%s)) > 0", b), 10, "it waits")
        try:
            self.db.insert_many(1)
            self.held_by(d, pid)
        finally:
            holder.rollback()
            for waiter in waiters:
                waiter.join()

    def test_who_has_locked_the_row_is_named_also_past_the_lease(self):
        d = self.daemon_of_lease("4s")
        connection, pid = self.lock("SELECT * FROM penstock.checkpoint FOR UPDATE")
        self.held_by(d, pid)
        wait_until(lambda: self.db.value("SELECT lease_until < now() FROM penstock.checkpoint"), 15)
        stays(lambda: d.status()["state"] == "held", 3, "it is held by the lock, whatever is tried meanwhile")
        self.held_by(d, pid)
        self.db.insert_many(3)
        connection.rollback()
        self.assertEqual(self.receive_ids(3), ["1", "2", "3"])
        d.wait_state("idle")
        d.wait_log(r"held: .*locked by pid %d \(psql" % pid)
        self.assertNotIn("another instance may be active", d.log())

    def test_a_lock_on_the_whole_table_and_under_load(self):
        d = self.daemon_of_lease("20s")
        self.db.insert_many(2000)
        connection, pid = self.lock("LOCK TABLE penstock.checkpoint IN ACCESS EXCLUSIVE MODE", "reindexer")
        self.db.insert_many(2000, first=2001)
        self.held_by(d, pid, "reindexer")
        connection.rollback()
        self.assertEqual(set(map(int, self.receive_ids(4000))), set(range(1, 4001)))
        d.wait_state("idle")
        self.assertIsNone(d.status()["culprit"])

    def test_a_start_that_meets_it_names_it_too(self):
        d = self.daemon_of_lease("1s")
        d.stop()
        connection, pid = self.lock("SELECT * FROM penstock.checkpoint FOR UPDATE")
        d.start()
        self.held_by(d, pid)
        connection.rollback()
        d.wait_state("idle")


class Skip(Operator):
    def held(self, d, position=1):
        return wait_until(lambda: (lambda f: f and f["state"] == "held" and f["culprit"]["position"] == position and f)(d.status()),
                          what=f"held at {position}")

    def daemon_with_poison(self):
        """The event at position 1 can't be sent: its routing key is too long."""
        self.db.insert(id="bad", type="k" * 256, streamid="a", data={"n": 1})
        self.db.insert(id="next", type="a.b", streamid="a")
        self.db.insert(id="other", type="a.b", streamid="b")
        d = self.daemon()
        self.held(d)
        return d

    def skip(self, *more):
        return ("skip", "orders", "1", "--reason", "test data", *more)

    def test_the_one_event_that_holds_everything_up_is_skipped_and_written_down(self):
        d = self.daemon_with_poison()
        self.assertIn("penstock skip orders 1 --reason", d.status()["resumes"])
        self.assertEqual(self.receive_ids(1), ["other"])
        self.assertIn("position 1", self.done(d, *self.skip()))
        self.assertGreaterEqual(self.db.checkpoint_position(), 1)      # done is saved
        self.assertEqual(self.receive_ids(1), ["next"])
        f = d.wait_state("idle")
        self.assertEqual(f["counts"]["skipped"], 1)
        (command, who, reason, before, after), = self.journal()
        self.assertEqual((command, reason, after), ("skip", "test data", None))
        self.assertIn(f"uid {os.getuid()}", who)
        self.assertEqual((before["position"], before["id"]), (1, "bad"))
        self.assertIn("routing key", before["words"])
        d.wait_log(r"operator command skip 1 by .*: done: .*test data")

    def test_the_next_one_that_is_held_is_held_since_then(self):
        self.db.insert(id="bad", type="k" * 256, streamid="a")
        self.db.insert(id="bad too", type="k" * 256, streamid="b")
        d = self.daemon()
        first = self.held(d)
        stays(lambda: d.status()["since"] == first["since"], 0.5, "the same one, held since the same time")
        self.done(d, *self.skip())
        self.assertNotEqual(self.held(d, 2)["since"], first["since"])

    def test_kill_9_right_after_the_answer_leaves_it_skipped(self):
        d = self.daemon_with_poison()
        self.done(d, *self.skip())
        d.kill()
        d.start()
        self.assertEqual(sorted(set(self.receive_ids(2))), ["next", "other"])
        d.wait_state("idle")
        self.assertEqual(len(self.journal()), 1)

    def test_the_answer_waits_for_a_save_that_is_slow(self):
        d = self.daemon_with_poison()
        self.db.sql("""CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
                       $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$""")
        self.db.sql("CREATE TRIGGER slow BEFORE UPDATE OF cursor ON penstock.checkpoint FOR EACH ROW EXECUTE FUNCTION slow()")
        self.done(d, *self.skip())
        d.kill()
        self.db.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'penstock/%%'")
        self.db.sql("DROP TRIGGER slow ON penstock.checkpoint")
        d.start()
        d.wait_state("idle")
        self.assertEqual(len(self.journal()), 1)

    def test_kill_9_before_the_answer_skips_nothing_that_is_not_written_down(self):
        for moment in range(6):
            with self.subTest(moment):
                self.db.sql("DROP SCHEMA IF EXISTS penstock CASCADE")
                self.db.sql("TRUNCATE event RESTART IDENTITY")
                self.rabbitmq.take(self.queue)
                d = self.daemon_with_poison()
                process = threading.Thread(target=self.command, args=(d, *self.skip()))
                process.start()
                stays(lambda: True, 0.004 * moment)
                d.kill()
                process.join()
                d.start()
                d.wait_state("held", "idle", "delivering")
                wait_until(lambda: d.status()["state"] in ("held", "idle"))
                if d.status()["state"] == "idle":
                    self.assertEqual(len(self.journal()), 1)
                else:
                    self.held(d)
                    self.done(d, *self.skip())
                    self.assertGreaterEqual(len(self.journal()), 1)
                d.wait_state("idle")
                self.assertEqual(d.stop(), 0)

    def test_only_the_held_one_can_be_skipped(self):
        d = self.daemon_with_poison()
        self.refused(d, "position 1", "skip", "orders", "2", "--reason", "r")
        self.done(d, *self.skip())
        d.wait_state("idle")
        self.refused(d, "nothing to skip", "skip", "orders", "3", "--reason", "r")
        self.assertEqual(len(self.journal()), 1)

    def test_an_event_that_the_broker_returns_again_and_again_can_be_skipped(self):
        self.rabbitmq.unbind(self.queue, self.exchange)
        d = self.daemon()
        d.wait_state("idle")
        self.db.insert(id="1", type="a.b", streamid="a")
        self.held(d)
        self.done(d, *self.skip())
        d.wait_state("idle")
        self.rabbitmq.bind(self.queue, self.exchange)
        self.db.insert(id="2", type="a.b", streamid="a")
        self.assertEqual(self.receive_ids(1), ["2"])

    def test_a_skip_that_waits_for_the_broker_keeps_nobody_from_pausing(self):
        broker = Proxy("127.0.0.1", self.rabbitmq.amqp_port)
        self.addCleanup(broker.close)
        self.rabbitmq.unbind(self.queue, self.exchange)
        d = self.daemon(self.configuration({"orders": self.forwarder(sink={"ack_timeout": "60s"})}, broker_port=broker.port))
        d.wait_state("idle")
        self.db.insert(id="1", type="a.b", streamid="a")
        self.held(d)
        broker.stall(down=True)
        published = d.status()["counts"]["published"]
        wait_until(lambda: d.status()["counts"]["published"] > published, 20, "it is on the wire again")
        skip = threading.Thread(target=self.command, args=(d, *self.skip()))
        skip.start()
        skip.join()     # whoever asked is not kept for ever either
        self.assertEqual([r[0] for r in self.journal()], ["skip"])
        self.assertIn("try again", self.command(d, *self.skip())[2])
        self.done(d, "pause", "orders")
        self.assertTrue(self.db.checkpoint()["paused"])
        broker.resume()
        d.wait_log(r"operator command skip 1 by .*: done: .*test data", 20)
        d.wait_state("paused")

    def test_an_unmatched_event_can_be_skipped_while_paused(self):
        self.db.insert(id="1", type="x")
        self.db.insert(id="2", type="y")
        d = self.daemon_for(rules=[{"name": "y", "filter": {"exact": {"type": "y"}}, "to": self.destination()}])
        self.held(d)
        self.done(d, "pause", "orders")
        d.wait_state("paused")
        self.done(d, *self.skip())
        self.done(d, "resume", "orders")
        d.wait_state("idle")
        self.assertEqual([r[0] for r in self.journal()], ["pause", "skip", "resume"])


class Requests(Operator):
    """POST itself."""

    def test_what_makes_no_sense_is_a_problem(self):
        d = self.daemon()
        d.wait_state("idle")
        for path, body, code in (
                ("/forwarders/nobody/pause", None, 404), ("/forwarders/orders/stop", None, 404), ("/forwarders//pause", None, 404),
                ("/forwarders/orders", None, 404), ("/forwarders/orders/pause", "[]", 400), ("/forwarders/orders/pause", "{", 400),
                ("/forwarders/orders/pause", '{"who": 5}', 400), ("/forwarders/orders/pause", '{"reason": "%s"}' % ("x" * 600), 400),
                ("/forwarders/orders/pause", "x" * 5000, 413),
                ("/forwarders/orders/skip", None, 400), ("/forwarders/orders/skip", '{"position": "1", "reason": "r"}', 400),
                ("/forwarders/orders/skip", '{"position": 1}', 400), ("/forwarders/orders/skip", '{"position": 1.5, "reason": "r"}', 400),
                ("/forwarders/orders/skip", '{"position": 1, "reason": "r"}', 409)):
            got, problem = self.post(d, path, body)
            self.assertEqual((got, problem["status"]), (code, code), path)
        self.assertEqual(self.journal(), [])
        code, _, _ = d.ask("GET", "/forwarders/orders/pause")
        self.assertEqual(code, 405)

    def test_a_name_and_a_reason_stay_one_line_in_the_log(self):
        d = self.daemon()
        d.wait_state("idle")
        self.assertEqual(self.post(d, "/forwarders/orders/pause", json.dumps({"who": "a\nb", "reason": "c\nd\u001b[31m"}))[0], 200)
        who, reason = self.journal()[0][1:3]
        self.assertEqual(reason, "c d [31m")
        self.assertTrue(who.startswith("a b (uid"))
        d.wait_log(r"by a b \(uid.*c d \[31m")

    def test_a_command_without_the_reason_it_needs_is_wrong_usage(self):
        d = self.daemon()
        d.wait_state("idle")
        for arguments in (("skip", "orders", "1"), ("skip", "orders", "--reason", "r"), ("skip", "orders", "one", "--reason", "r"),
                          ("pause",), ("skip",), ("pause", "orders", "1")):
            code, out, err = self.command(d, *arguments)
            self.assertEqual((code, out), (64, ""), arguments)
        self.refused(d, "no forwarder", "pause", "nobody")


if __name__ == "__main__":
    main()
