"""Reload: a changed configuration comes into force without a restart, or not at all."""

import copy
import json
import os
import signal
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, Proxy, main, penstock, wait_until

RELOADS = int(os.environ.get("PENSTOCK_TEST_RELOADS", "200"))


class Reload(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def two(self, **keys):
        """Two forwarders of the same table: orders and copies, each to a place of its own."""
        self.copies = self.bound_queue("copies")
        rules = [{"name": "all", "to": {"exchange": self.copies, "routing_key": "{type}"}}]
        return self.configuration({"orders": self.forwarder(), "copies": self.forwarder(rules=rules)}, **keys)

    def reload(self, d, configuration=None, expect="reloaded"):
        if configuration is not None:
            d.write(configuration)
        before = d.log().count(expect)
        d.signal(signal.SIGHUP)
        wait_until(lambda: d.log().count(expect) > before, 20, lambda: f"{expect}: {d.log()[-2000:]}")

    def backends(self, forwarder):
        """The server's processes that serve it: who reconnects gets others."""
        return {row[0] for row in self.db.sql("SELECT pid FROM pg_stat_activity WHERE datname = %s AND application_name LIKE %s",
                                              self.db.name, f"%{forwarder}%")}

    def since(self, d):
        return d.get("/status")[1]["configuration"]

    def test_only_what_changed_is_started_anew(self):
        configuration = self.two()
        d = self.daemon(configuration)
        self.db.insert_many(20)
        self.receive(20), self.receive(20, queue=self.copies)
        self.wait_saved(20), self.wait_saved(20, "copies")
        before = {name: (d.status(name)["counts"], self.backends(name)) for name in ("orders", "copies")}
        self.assertEqual(len(before["orders"][1]), 2)
        configuration["forwarders"]["copies"]["rules"][0]["to"]["routing_key"] = "changed"
        self.reload(d, configuration)
        self.assertIn("0 new, 1 started anew, 0 removed, 1 untouched", d.log())
        self.db.insert_many(5, first=21)
        self.assertEqual(self.receive_ids(5), ["21", "22", "23", "24", "25"])
        self.assertEqual([(m.id, m.routing_key) for m in self.receive(5, queue=self.copies)],
                         [(str(n), "changed") for n in range(21, 26)])
        self.assertEqual(self.backends("orders"), before["orders"][1])
        self.assertEqual(d.status("orders")["counts"]["confirmed"], 25)
        self.assertNotEqual(self.backends("copies"), before["copies"][1])
        self.assertEqual(d.stop(), 0)

    def test_a_changed_connection_restarts_those_that_use_it(self):
        configuration = self.two()
        configuration["connections"]["other"] = copy.deepcopy(configuration["connections"]["rabbit"])
        configuration["forwarders"]["copies"]["sink"]["connection"] = "other"
        d = self.daemon(configuration)
        d.wait_state("idle"), d.wait_state("idle", forwarder="copies")
        # A password that stands in the URI is masked wherever it is shown, and yet seen when it changes.
        configuration["connections"]["other"]["rabbitmq"]["uri"] = self.rabbitmq.uri().replace(":guest@", ":wrong@")
        self.reload(d, configuration)
        self.assertIn("0 new, 1 started anew, 0 removed, 1 untouched", d.log())
        d.wait_state("disconnected", forwarder="copies")
        self.assertEqual(d.status("orders")["state"], "idle")
        self.assertNotIn(":wrong", d.log())
        configuration["connections"]["other"]["rabbitmq"]["uri"] = self.rabbitmq.uri()
        self.reload(d, configuration)
        d.wait_state("idle", forwarder="copies")

    def test_new_ones_start_and_removed_ones_stop(self):
        configuration = self.two()
        copies = configuration["forwarders"].pop("copies")
        d = self.daemon(configuration)
        self.db.insert_many(10)
        self.wait_saved(10)
        configuration["forwarders"] = {"copies": copies, **configuration["forwarders"]}
        self.reload(d, configuration)
        self.assertIn("1 new, 0 started anew, 0 removed, 1 untouched", d.log())
        self.assertEqual([f["name"] for f in d.get("/status")[1]["forwarders"]], ["copies", "orders"])
        self.receive(10, queue=self.copies)
        del configuration["forwarders"]["orders"]
        self.reload(d, configuration)
        self.assertEqual([f["name"] for f in d.get("/status")[1]["forwarders"]], ["copies"])
        wait_until(lambda: not self.backends("orders"))
        self.db.insert_many(5, first=11)
        self.receive(5, queue=self.copies)
        self.wait_saved(15, "copies")
        self.assertEqual(self.db.checkpoint_position("orders"), 10)
        self.assertEqual(d.stop(), 0)

    def test_conf_d_is_read_again(self):
        configuration = self.two()
        copies = configuration["forwarders"].pop("copies")
        d = self.daemon(configuration)
        d.wait_state("idle")
        os.mkdir(os.path.join(d.directory, "conf.d"))
        added = os.path.join(d.directory, "conf.d", "copies.yaml")
        with open(added, "w") as f:
            f.write(json.dumps({"forwarders": {"copies": copies}}))
        self.reload(d)
        d.wait_state("idle", forwarder="copies")
        os.unlink(added)
        self.reload(d)
        self.assertEqual([f["name"] for f in d.get("/status")[1]["forwarders"]], ["orders"])

    def test_with_findings_what_was_in_force_stays_and_is_said_to(self):
        configuration = self.configuration()
        d = self.daemon(configuration)
        d.wait_state("idle")
        before, backends = self.since(d), self.backends("orders")
        self.assertIsNone(before["refused"])
        self.reload(d, {**configuration, "stop_timeout": "soon", "healht": {}}, expect="what was in force stays")
        for words in ("stop_timeout", "healht", "penstock.yaml:"):
            self.assertIn(words, d.log())
        self.assertIn("2 errors", self.since(d)["refused"])
        self.assertRegex(self.since(d)["refused_at"], r"^20.*Z$")
        code, table, err = penstock("status", "-s", d.socket)
        self.assertEqual((code, len(table.splitlines())), (0, 2))     # the table is as always, for what reads it
        self.assertRegex(err, r"^penstock: the configuration as it is now was refused .* ago, the one before it is in force: "
                              r"2 errors: .*stop_timeout")
        self.assertEqual(self.since(d)["since"], before["since"])
        self.db.insert_many(5)
        self.receive(5)
        self.assertEqual(self.backends("orders"), backends)
        self.reload(d, configuration)
        self.assertIsNone(self.since(d)["refused"])
        self.assertEqual(self.backends("orders"), backends)

    def test_what_would_lose_the_place_is_refused_with_the_way(self):
        configuration = self.configuration()
        d = self.daemon(configuration)
        self.db.insert_many(5)
        self.wait_saved(5)
        for change in ({"table": "public.event"}, {"columns": {"position": "streamversion"}},
                       {"columns": {"transaction_id": "other"}}):
            with self.subTest(change):
                changed = copy.deepcopy(configuration)
                changed["forwarders"]["orders"]["source"].update(change)
                self.reload(d, changed, expect="what was in force stays")
                refused = self.since(d)["refused"]
                self.assertIn("forwarder orders: source.", refused)
                self.assertIn("another name", refused)
                self.assertIn("restart penstockd", refused)
        for change in ({"checkpoint": {"schema": "other"}}, {"status": {"socket": "/tmp/other.sock"}},
                       {"status": {"socket": d.socket, "metrics": "127.0.0.1:1"}}):
            with self.subTest(change):
                self.reload(d, {**configuration, **change}, expect="what was in force stays")
                self.assertIn("restart penstockd", self.since(d)["refused"])
                self.assertIn("1 error", self.since(d)["refused"])
        # The way: another name.
        renamed = copy.deepcopy(configuration)
        renamed["forwarders"]["again"] = renamed["forwarders"].pop("orders")
        renamed["forwarders"]["again"]["source"]["table"] = "public.event"
        self.reload(d, renamed)
        self.wait_saved(5, "again")

    def test_health_and_stop_timeout_are_in_force_at_once(self):
        self.rabbitmq.unbind(self.queue, self.exchange)
        configuration = self.configuration()
        d = self.daemon(configuration)
        self.db.insert_many(1)
        d.wait_state("held")
        self.assertEqual(d.get("/health")[0], 200)
        self.reload(d, {**configuration, "health": {"max_age": "1s"}, "stop_timeout": "7s"})
        self.assertIn("0 started anew, 0 removed, 1 untouched", d.log())
        wait_until(lambda: d.get("/health")[0] == 503)
        d.stop()
        self.assertIn("at most 7.0 s", d.log())

    def test_a_rotated_password_is_used_at_the_next_connect_without_a_reload(self):
        self.rabbitmq.ctl("add_user", self.name, "first")
        self.rabbitmq.ctl("set_permissions", self.name, "^$", ".*", "^$")
        password = os.path.join(self.directory, "password")

        def write(text):
            with open(password, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
                f.write(text)
        write("first")
        configuration = self.configuration()
        configuration["connections"]["rabbit"] = {"rabbitmq": {
            "uri": f"amqp://{self.name}@127.0.0.1:{self.rabbitmq.amqp_port}/", "password": {"file": password}}}
        d = self.daemon(configuration)
        self.db.insert_many(1)
        self.receive(1)
        self.rabbitmq.ctl("change_password", self.name, "second")
        write("second")
        self.rabbitmq.ctl("close_all_user_connections", self.name, "rotated")
        self.db.insert_many(1, first=2)
        self.receive(1)
        self.assertNotIn("reloading", d.log())

    def test_a_stop_in_the_middle_of_a_reload_is_a_stop(self):
        proxy = Proxy("127.0.0.1", self.rabbitmq.amqp_port)
        self.addCleanup(proxy.close)
        configuration = self.configuration(broker_port=proxy.port, stop_timeout="3s")
        d = self.daemon(configuration)
        d.wait_state("idle")
        proxy.stall(down=True)      # what is published now stays without its confirm
        self.db.insert_many(10)
        wait_until(lambda: d.status()["counts"]["published"] == 10)
        configuration["forwarders"]["orders"]["retry"] = {"max": "1s"}
        d.write(configuration)
        d.signal(signal.SIGHUP)
        d.wait_state("stopping")
        d.terminate()
        self.assertEqual(d.wait(), 1)
        self.assertNotIn("reloaded", d.log())

    def test_the_service_manager_is_told_from_when_until_when(self):
        path = os.path.join(os.path.dirname(self.daemon(start=False).socket), "notify")
        d = self.daemons[0]
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(path)
        manager.settimeout(10)
        d.environment["NOTIFY_SOCKET"] = path
        d.start()
        self.assertIn("READY=1", manager.recv(4096).decode())
        d.wait_state("idle")
        d.signal(signal.SIGHUP)
        begin = manager.recv(4096).decode()
        self.assertRegex(begin, r"(?m)^RELOADING=1$")
        self.assertRegex(begin, r"(?m)^MONOTONIC_USEC=\d+$")
        self.assertRegex(manager.recv(4096).decode(), r"(?m)^READY=1$")

    def test_many_reloads_under_load_lose_nothing_and_leak_nothing(self):
        configurations = [self.two(), self.two()]
        configurations[1]["forwarders"]["orders"]["retry"] = {"max": "1s"}      # the one that is started anew each time
        configurations[1]["forwarders"]["third"] = copy.deepcopy(configurations[1]["forwarders"]["copies"])
        configurations[1]["forwarders"]["third"]["rules"] = [{"skip": True}]    # there every second time
        d = self.daemon(configurations[0])
        written = [0]

        def write(stop):
            connection = self.db.connect()
            while not stop.is_set():
                with connection, connection.cursor() as cursor:
                    cursor.execute("INSERT INTO event (id, type, streamid, data) SELECT (%s + i)::text, 'order.placed', "
                                   "'s' || i %% 10, '{}' FROM generate_series(1, 10) s(i)", (written[0],))
                written[0] += 10
                stop.wait(0.02)
            connection.close()

        def under_load(reloads):
            stop = threading.Event()
            writer = threading.Thread(target=write, args=(stop,))
            writer.start()
            try:
                for n in range(reloads):
                    self.reload(d, configurations[(n + 1) % 2])
            finally:
                stop.set()
                writer.join()
            self.wait_saved(written[0], seconds=30), self.wait_saved(written[0], "copies", seconds=30)

        def used():
            """Descriptors and threads; the connection that was asked through may still be there for a moment."""
            proc = f"/proc/{d.process.pid}"
            return [len(os.listdir(f"{proc}/{what}")) for what in ("fd", "task")]

        def rest():
            """Idle, by the first configuration."""
            wait_until(lambda: all(f["state"] == "idle" for f in d.get("/status")[1]["forwarders"]), 20)
            least = used()
            for _ in range(20):
                threading.Event().wait(0.05)
                least = min(least, used())
            return least
        d.wait_state("idle")
        under_load(40)      # what is taken once, and kept
        before, bytes_before = rest(), d.rss_bytes()
        under_load(RELOADS // 2 * 2)
        self.assertEqual(rest(), before, "descriptors, threads")
        self.assertLess(d.rss_bytes() - bytes_before, 2 << 20, f"{bytes_before} bytes before, {d.rss_bytes()} after")
        for queue in (self.queue, self.copies):
            # A clean stop repeats nothing.
            ids = [int(m.id) for m in self.receive(written[0], 60, queue)]
            self.assertEqual(sorted(ids), list(range(1, written[0] + 1)))
            self.assert_queue_empty(queue)
        self.assertEqual(d.stop(), 0)


if __name__ == "__main__":
    main()
