"""Several instances of one forwarder: one is active, the others stand by, whatever happens to them (G12)."""

import os
import shutil
import signal
import threading
import unittest

from kafka_story import KafkaStory
from penstock import Case, Penstockd, Proxy, main, penstock, stays, wait_until

TAKEOVERS = int(os.environ.get("PENSTOCK_TEST_TAKEOVERS", "8"))


class Elsewhere(Penstockd):
    """A daemon in a PID namespace of its own: for the others as far away as on another machine."""

    def start(self, stdout=None):
        under = "unshare --pid --mount-proc --fork --kill-child" + (" --map-root-user --user" if os.getuid() else "")
        os.environ["PENSTOCKD_UNDER"] = under
        try:
            super().start(stdout)
        finally:
            del os.environ["PENSTOCKD_UNDER"]
        wait_until(self.pid, 10, "the daemon in its namespace")
        return self

    def pid(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            children = f.read().split()
        return int(children[0]) if children else None


class Instances:
    """Two of them, with one database and one broker; mixed into a story."""

    def instance(self, name, lease="2s", elsewhere=True, db_port=None, start=True, schema="penstock", **keys):
        configuration = self.configuration({"orders": self.forwarder(**keys)}, db_port=db_port,
                                           checkpoint={"create": True, "lease": lease, "schema": schema})
        kind = Elsewhere if elsewhere else Penstockd
        d = kind(os.path.join(self.directory, name), configuration)
        self.daemons.append(d)
        self.addCleanup(d.done)
        return d.start() if start else d

    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def proxy(self):
        proxy = Proxy("127.0.0.1", self.postgres.pgport)
        self.addCleanup(proxy.close)
        return proxy

    def owner(self):
        return self.db.value("SELECT owner FROM penstock.checkpoint")

    def active_and_standby(self, a, b):
        """Whichever it is."""
        def decided():
            states = {d: (d.status() or {}).get("state") for d in (a, b)}
            standby = [d for d in (a, b) if states[d] == "standby"]
            active = [d for d in (a, b) if states[d] in ("idle", "delivering")]
            return (active[0], standby[0]) if len(standby) == len(active) == 1 else None
        return wait_until(decided, 15, "one active, one standby")


@unittest.skipIf(shutil.which("unshare") is None, "unshare(1) makes the other machines")
class OfTwo(Instances, Case):
    def test_started_together_on_an_empty_table_one_delivers_and_one_stands_by(self):
        a, b = self.instance("a"), self.instance("b")
        active, standby = self.active_and_standby(a, b)
        self.db.insert_many(200)
        self.assertEqual(len(set(self.receive_ids(200))), 200)
        self.assert_queue_empty()           # nobody sent anything twice
        said, does = standby.status(), active.status()
        self.assertIn("another instance is active", said["reason"])
        self.assertIn("its lease of 2 s", said["resumes"])
        self.assertTrue(said["healthy"])
        self.assertFalse(said["lease"]["held"])
        self.assertTrue(does["lease"]["held"])
        self.assertEqual(said["lease"]["owner"], does["lease"]["owner"])
        self.assertRegex(does["lease"]["owner"], r"^[^:]+:\d+$")
        self.assertRegex(does["lease"]["until"], r"^\d{4}-.*Z$")
        self.assertEqual(standby.get("/ready")[0], 200)
        self.assertEqual(standby.get("/health")[0], 200)

    def test_an_idle_lease_is_extended_and_costs_little(self):
        a, b = self.instance("a", "1s"), self.instance("b", "1s", start=False)
        a.wait_state("idle")
        owner, until = self.owner(), self.db.value("SELECT lease_until FROM penstock.checkpoint")
        b.start()
        b.wait_state("standby")
        wait_until(lambda: self.db.value("SELECT lease_until - %s > interval '2 s' FROM penstock.checkpoint", until), 10)
        self.assertEqual(self.owner(), owner)
        self.assertEqual(b.status()["state"], "standby")
        self.assertEqual(a.status()["checkpoint"]["epoch"], 1)

    def test_after_a_clean_stop_the_other_takes_over_at_once(self):
        a = self.instance("a", "1h")
        a.wait_state("idle")
        b = self.instance("b", "1h")
        b.wait_state("standby")
        self.db.insert_many(50)
        self.receive(50)
        a.stop()
        b.wait_state("idle", "delivering", seconds=5)
        self.db.insert_many(50, first=51)
        self.assertEqual(sorted(map(int, self.receive_ids(50))), list(range(51, 101)))
        self.assert_queue_empty()           # a clean stop repeats nothing, for the other neither

    def test_a_standby_shows_what_the_row_says_and_no_lag_that_it_cannot_see(self):
        a = self.instance("a", "1s")
        a.wait_state("idle")
        b = self.instance("b", "1s")
        b.wait_state("standby")
        self.db.insert_many(30)
        self.receive(30)
        wait_until(lambda: b.status()["checkpoint"]["position"] == 30, 5, "the other one's place")
        f = b.status()
        self.assertEqual(f["checkpoint"]["epoch"], 1)
        self.assertEqual(f["checkpoint"]["saved"][:16], a.status()["checkpoint"]["saved"][:16])
        self.assertIsNone(f["lag"]["seconds"])
        self.assertNotIn("penstock_lag_seconds{", b.get_text("/metrics")[2])
        code, table, _ = penstock("-s", b.socket, "status")
        self.assertEqual(code, 0)
        self.assertRegex(table, r" 30 +[?] +[?] +0/s  another instance")
        self.assertEqual(a.status()["lag"]["seconds"], 0)
        self.assertIn("penstock_lag_seconds{", a.get_text("/metrics")[2])

    def test_two_of_the_same_host_and_pid_are_told_apart(self):
        """As in two containers: the host's name and pid 1 are the same, the place isn't."""
        a = self.instance("a", "1h")
        a.wait_state("idle")
        host, pid, place, birth = self.owner().split(":")
        b = self.instance("b", "1h")
        f = b.wait_state("standby")
        mine = b.get("/status")[1]
        self.assertEqual(f["lease"]["place"], place)
        self.assertNotEqual(mine["place"], place)
        self.assertEqual(mine["instance"], f["lease"]["owner"])         # both are the first in their namespace
        self.assertIn(f"{host}:{pid} in place {place} (this one is {host}:{pid} in place {mine['place']})", f["reason"])
        self.assertIn(f"owner {host}:{pid}, place {place}", penstock("-s", b.socket, "status", "orders")[1])

    def test_after_a_kill_elsewhere_the_other_waits_for_the_lease(self):
        a = self.instance("a", "3s")
        a.wait_state("idle")
        b = self.instance("b", "3s")
        b.wait_state("standby")
        a.kill()
        left = self.db.value("SELECT extract(epoch FROM lease_until - now()) FROM penstock.checkpoint")
        self.assertGreater(left, 0)
        stays(lambda: b.status()["state"] == "standby", float(left) / 2, "it waits for the lease")
        b.wait_state("idle", seconds=5)
        self.assertEqual(b.status()["checkpoint"]["epoch"], 2)
        b.wait_log("standby -> (idle|delivering)")

    def test_after_a_crash_on_the_same_machine_nobody_waits(self):
        a = self.instance("a", "1h", elsewhere=False)
        a.wait_state("idle")
        b = self.instance("b", "1h", elsewhere=False)
        b.wait_state("standby")
        a.kill()
        b.wait_state("idle", seconds=5)
        b.kill()
        a.start().wait_state("idle", seconds=5)

    def test_frozen_past_its_lease_an_instance_hands_over_nothing_more(self):
        a = self.instance("a", "1s", source={"poll": {"max": "1s"}})
        a.wait_state("idle")
        b = self.instance("b", "1s")
        b.wait_state("standby")
        owner = self.owner()
        a.signal(signal.SIGSTOP)
        b.wait_state("idle", seconds=10)
        self.assertNotEqual(self.owner(), owner)
        self.db.insert_many(100)
        self.assertEqual(len(set(self.receive_ids(100))), 100)
        a.signal(signal.SIGCONT)
        a.wait_state("standby")
        a.wait_log("the lease may have run out before it could be extended")
        self.db.insert_many(100, first=101)
        self.assertEqual(sorted(map(int, self.receive_ids(100))), list(range(101, 201)))
        self.assert_queue_empty()
        self.assertEqual(b.status()["state"], "idle")

    def test_cut_off_from_the_database_an_instance_is_silent_before_the_other_speaks(self):
        proxy = self.proxy()
        a = self.instance("a", "2s", db_port=proxy.port)
        a.wait_state("idle")
        b = self.instance("b", "2s")
        b.wait_state("standby")
        proxy.stall(up=True, down=True)     # no reset: as behind a firewall that drops
        b.wait_state("idle", seconds=15)
        self.assertIn(a.status()["state"], ("disconnected", "starting"))
        self.assertFalse(a.status()["lease"]["held"])
        proxy.resume()
        a.wait_state("standby", seconds=30)
        self.db.insert_many(100)
        self.assertEqual(sorted(map(int, self.receive_ids(100))), list(range(1, 101)))
        self.assert_queue_empty()

    def test_a_write_of_the_old_owner_is_refused_and_it_stands_by(self):
        a = self.instance("a", "1h")
        a.wait_state("idle")
        self.db.sql("UPDATE penstock.checkpoint SET owner = 'somebody', epoch = epoch + 1, lease_until = now() + interval '1 h'")
        before = self.db.checkpoint()
        self.db.insert_many(1)
        a.wait_state("standby")
        a.wait_log("is no longer as it was loaded: another instance")
        self.assertEqual(self.db.checkpoint(), before)
        self.assertIn("somebody", a.status()["reason"])
        self.db.sql("UPDATE penstock.checkpoint SET owner = 'another', epoch = epoch + 1")
        wait_until(lambda: "another instance is active: another" in a.status()["reason"], 10, "whose turn it is now")
        self.db.sql("UPDATE penstock.checkpoint SET lease_until = now()")
        a.wait_state("idle")
        self.receive(2)     # its own before, and again after: it could not know

    def test_what_the_other_has_taken_over_is_none_of_its_worries_at_a_stop(self):
        a = self.instance("a", "1h", elsewhere=False)
        a.wait_state("idle")
        self.db.sql("UPDATE penstock.checkpoint SET owner = 'somebody', epoch = epoch + 1, lease_until = now() + interval '1 h'")
        self.db.insert_many(1)
        a.wait_state("standby")
        self.assertEqual(a.stop(), 0)
        a.wait_log("stopped: .* none will be sent again")

    def test_a_command_goes_to_the_active_one_and_holds_for_the_next(self):
        a = self.instance("a", "1h")
        a.wait_state("idle")
        b = self.instance("b", "1h")
        b.wait_state("standby")
        self.assertEqual(b.ask("POST", "/forwarders/orders/pause")[0], 503)
        self.assertEqual(a.ask("POST", "/forwarders/orders/pause")[0], 200)
        a.stop()
        b.wait_state("paused")


@unittest.skipIf(shutil.which("unshare") is None, "unshare(1) makes the other machines")
class OverKafka(Instances, KafkaStory):
    def test_cut_off_from_the_database_an_instance_ends_its_producer(self):
        """Else the library's threads would go on sending what they have."""
        proxy = self.proxy()
        a = self.instance("a", "2s", db_port=proxy.port)
        a.wait_state("idle")
        b = self.instance("b", "2s")
        b.wait_state("standby")
        self.db.insert_many(10)
        self.wait_saved(10)
        before = a.status()["counts"]["reconnects"]
        proxy.stall(up=True, down=True)
        b.wait_state("idle", seconds=15)
        wait_until(lambda: a.status()["counts"]["reconnects"] > before, 10, "a new producer")
        self.db.insert_many(10, first=11)
        self.wait_saved(20)
        proxy.resume()
        a.wait_state("standby", seconds=30)
        self.assertEqual(sorted(map(int, self.receive_ids(20))), list(range(1, 21)))


@unittest.skipIf(shutil.which("unshare") is None, "unshare(1) makes the other machines")
class OverAQueue(Instances, Case):
    """lease.queue: RabbitMQ itself lets only one in."""

    def broker_connection(self, port=None):
        return {"rabbitmq": {"uri": self.rabbitmq.uri(port), "heartbeat": "1s"}}

    def with_queue(self, name, **keys):
        return self.instance(name, sink={"lease": {"queue": f"only-one-{self.queue}"[:255]}}, **keys)

    def kept_out(self, d):
        status = d.status() or {}
        return status.get("state") == "standby" and "belongs to another connection" in status["reason"]

    def test_a_second_one_that_its_own_database_calls_active_publishes_nothing(self):
        """Two checkpoints, as in a database and its copy: nothing but the queue is between them."""
        a = self.with_queue("a", schema="one")
        a.wait_state("idle")
        b = self.with_queue("b", schema="two")
        wait_until(lambda: self.kept_out(b), 10)
        said = b.status()
        self.assertIn("broker 'rabbit': the queue 'only-one-", said["reason"])
        self.assertIn("asked every second", said["resumes"])
        self.assertTrue(said["healthy"])
        self.assertTrue(said["lease"]["held"])      # the database's, of its own
        self.assertEqual(b.get("/health")[0], 200)
        self.db.insert_many(50)
        self.assertEqual(sorted(map(int, self.receive_ids(50))), list(range(1, 51)))
        stays(lambda: self.kept_out(b), 1.5, "it asks again, and is kept out")
        self.assert_queue_empty()
        self.assertEqual(a.status()["state"], "idle")
        a.kill()
        b.wait_state("idle", "delivering", seconds=10)
        b.wait_log("standby -> ")
        self.assertNotIn("disconnected", b.log())
        self.assertEqual(sorted(map(int, self.receive_ids(50))), list(range(1, 51)))    # of its own checkpoint
        self.assert_queue_empty()

    def test_a_standby_of_the_database_leaves_the_queue_to_others(self):
        """Else each of two had one of the two rights, and waited for the other's."""
        a = self.with_queue("a", lease="1h")
        a.wait_state("idle")
        self.db.sql("UPDATE penstock.checkpoint SET owner = 'somebody', epoch = epoch + 1, lease_until = now() + interval '1 h'")
        self.db.insert_many(1)
        a.wait_state("standby")
        self.assertIn("another instance is active", a.status()["reason"])
        b = self.with_queue("b", schema="two")
        b.wait_state("idle")
        self.db.sql("UPDATE penstock.checkpoint SET lease_until = now()")
        wait_until(lambda: self.kept_out(a), 10, "the other way round")
        b.stop()
        a.wait_state("idle", "delivering", seconds=10)

    def test_a_frozen_one_keeps_the_queue_until_the_broker_has_noticed(self):
        a = self.with_queue("a", lease="1s")
        a.wait_state("idle")
        b = self.with_queue("b", lease="1s")
        b.wait_state("standby")
        a.signal(signal.SIGSTOP)
        wait_until(lambda: self.kept_out(b), 10, "the database lets it, the broker does not")
        b.wait_state("idle", seconds=20)
        a.signal(signal.SIGCONT)
        a.wait_state("standby")
        self.db.insert_many(50)
        self.assertEqual(sorted(map(int, self.receive_ids(50))), list(range(1, 51)))
        self.assert_queue_empty()
        self.assertEqual(b.status()["state"], "idle")

    def test_what_lost_the_lease_gives_the_queue_away(self):
        proxy = self.proxy()
        a = self.with_queue("a", lease="2s", db_port=proxy.port)
        a.wait_state("idle")
        b = self.with_queue("b", lease="2s")
        b.wait_state("standby")
        proxy.stall(up=True, down=True)
        b.wait_state("idle", seconds=15)
        proxy.resume()
        a.wait_state("standby", seconds=30)
        self.assertIn("another instance is active", a.status()["reason"])
        self.db.insert_many(10)
        self.assertEqual(sorted(map(int, self.receive_ids(10))), list(range(1, 11)))


class Load(Instances, Case):
    def write(self):
        connection = self.db.connect()
        connection.autocommit = True
        while not self.enough.is_set():
            connection.cursor().execute(
                "INSERT INTO event (id, type, streamid) SELECT gen_random_uuid(), 'a.b', 's' || i % 10 FROM generate_series(1, 20) s(i)")
            self.enough.wait(0.02)
        connection.close()

    def test_take_overs_under_load_lose_nothing_and_keep_the_order_within_an_instance(self):
        """PENSTOCK_TEST_TAKEOVERS=200 for as many."""
        self.enough = threading.Event()
        writer = threading.Thread(target=self.write)
        self.addCleanup(writer.join)
        self.addCleanup(self.enough.set)
        instances = [self.instance("a", "1s"), self.instance("b", "1s")]
        active, standby = self.active_and_standby(*instances)
        writer.start()
        refused = 0
        for turn in range(TAKEOVERS):
            how = turn % 3
            if how == 0:
                active.signal(signal.SIGSTOP)
            elif how == 1:
                active.kill()
            else:
                active.stop()
            standby.wait_state("idle", "delivering", seconds=15)
            if how == 0:
                active.signal(signal.SIGCONT)
            else:
                active.start()
            active.wait_state("standby", seconds=15)
            active, standby = standby, active
        self.enough.set()
        writer.join()
        wanted = [row[0] for row in self.db.sql("SELECT id FROM event ORDER BY position")]
        got = self.take_all(set(wanted))
        position = dict(self.db.sql("SELECT id, position FROM event"))
        stream = dict(self.db.sql("SELECT id, streamid FROM event"))
        self.assertEqual(self.overtaken(got, position, stream), [])
        refused = sum(d.log().count("no longer as it was loaded") + d.log().count("may have run out") for d in instances)
        self.assertGreaterEqual(refused, (TAKEOVERS + 2) // 3)
        print(f"  {TAKEOVERS} take-overs, {len(wanted)} events, 0 lost, {len(got) - len(set(got))} repeats, "
              f"{refused} times an old owner was refused or held back", flush=True)

    def take_all(self, wanted):
        got = []

        def complete():
            got.extend(m.id for m in self.rabbitmq.take(self.queue))
            self.look_at_daemons()
            return wanted <= set(got)
        wait_until(complete, 60, "every event")
        return got

    @staticmethod
    def overtaken(got, position, stream):
        """First deliveries of a stream are in its order: a repeat is one, wherever it stands."""
        last, seen, wrong = {}, set(), []
        for id in got:
            if id not in seen and position[id] < last.get(stream[id], 0):
                wrong.append(id)
            if id not in seen:
                last[stream[id]] = position[id]
            seen.add(id)
        return wrong


if __name__ == "__main__":
    main()
