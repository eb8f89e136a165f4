"""The daemon and the operator's command: starting, stopping, telling, keeping secrets."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import PENSTOCK, PENSTOCKD, Case, Proxy, free_port, main, penstock, stays, wait_until


def run(*command, **keys):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, **keys)
    return done.returncode, done.stdout, done.stderr


class ServiceManager(Case):
    """sd_notify(3), as a unit with Type=notify and WatchdogSec= sees it."""

    def test_it_says_ready_feeds_the_watchdog_and_says_stopping(self):
        self.db.create_event_table()
        path = os.path.join(tempfile.mkdtemp(prefix="pk-"), "notify")
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(path)
        manager.setblocking(False)
        told = []

        def was_told(what):
            try:
                while True:
                    told.append(manager.recv(4096).decode())
            except BlockingIOError:
                pass
            return sum(what in message for message in told)

        d = self.daemon(self.configuration({"orders": self.forwarder()}),
                        environment={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"})
        wait_until(lambda: was_told("READY=1"), what=lambda: told)
        wait_until(lambda: was_told("WATCHDOG=1") >= 3, what=lambda: told)
        self.assertIn("1 forwarder", "".join(told))
        self.assertEqual(d.stop(), 0)
        self.assertTrue(was_told("STOPPING=1"), told)


class Exits(Case):
    def test_wrong_usage_is_64(self):
        for arguments in (["--no-such-option"], ["-c"], ["superfluous"]):
            with self.subTest(arguments):
                code, _, err = run(PENSTOCKD, *arguments)
                self.assertEqual(code, 64)
                self.assertIn("penstockd", err)
        self.assertEqual(penstock()[0], 64)
        self.assertEqual(penstock("no-such-command")[0], 64)

    def test_help_and_version_are_0(self):
        for program in (PENSTOCKD, PENSTOCK):
            code, out, _ = run(program, "--help")
            self.assertEqual(code, 0)
            self.assertIn("-c", out)
            code, out, _ = run(program, "--version")
            self.assertEqual(code, 0)
        self.assertIn("rabbitmq", run(PENSTOCKD, "--version")[1])

    def test_a_refused_configuration_is_78_with_every_finding_and_its_place(self):
        d = self.daemon("connections:\n  db:\n    postgresql: {conninf: \"host=/x\"}\nforwarders:\n  orders:\n"
                        "    source: {connection: nobody, table: event}\n    sink: {connection: db}\n    rules: []\n"
                        "stop_timeout: soon\n", start=False)
        d.start()
        self.assertEqual(d.wait(), 78)
        log = d.log()
        self.assertIn(f"{d.config_file}:3:", log)
        self.assertIn("conninfo", log)          # the nearest valid key
        for line in (6, 9):
            self.assertIn(f"{d.config_file}:{line}:", log)

    def test_a_missing_file_is_78(self):
        code, _, err = run(PENSTOCKD, "-c", "/no/such/file.yaml")
        self.assertEqual(code, 78)
        self.assertIn("/no/such/file.yaml", err)

    def test_sigterm_settles_saves_and_is_0(self):
        self.db.create_event_table()
        self.db.insert_many(20000, streams=200)
        d = self.daemon()
        wait_until(lambda: self.rabbitmq.count(self.queue) > 100)
        self.assertEqual(d.stop(), 0)
        self.assertLess(self.rabbitmq.count(self.queue), 20000)
        d.wait_log("none will be sent again")
        d.start()
        self.wait_saved(20000, seconds=20)
        self.assertEqual(self.rabbitmq.count(self.queue), 20000)

    def test_stopped_as_soon_as_it_can_be_is_0_as_well(self):
        self.db.create_event_table()
        d = self.daemon(start=False)
        for _ in range(5):
            self.assertEqual(d.start().stop(), 0)

    def test_sigint_stops_as_well(self):
        self.db.create_event_table()
        d = self.daemon()
        d.wait_state("idle")
        d.signal(signal.SIGINT)
        self.assertEqual(d.wait(), 0)

    def test_a_stop_that_cannot_settle_is_1_and_says_what_will_be_sent_again(self):
        self.db.create_event_table()
        proxy = Proxy("127.0.0.1", self.rabbitmq.amqp_port)
        self.addCleanup(proxy.close)
        d = self.daemon(self.configuration(broker_port=proxy.port, stop_timeout="1s"))
        d.wait_state("idle")
        proxy.stall(down=True)
        self.db.insert_many(3, streams=3)
        wait_until(lambda: self.rabbitmq.count(self.queue) == 3)
        began = time.monotonic()
        self.assertEqual(d.stop(), 1)
        self.assertLess(time.monotonic() - began, 4)
        d.wait_log("again")

    def test_a_stop_while_the_broker_is_away_does_not_wait_for_it(self):
        self.db.create_event_table()
        self.db.insert_many(3)
        d = self.daemon(self.configuration(broker_port=free_port()))
        d.wait_state("disconnected")
        began = time.monotonic()
        self.assertEqual(d.stop(), 0)
        self.assertLess(time.monotonic() - began, 3)


    def test_a_stop_while_the_peers_say_nothing_to_a_connection_attempt(self):
        self.db.create_event_table()
        database, broker = Proxy("127.0.0.1", self.postgres.pgport), Proxy("127.0.0.1", self.rabbitmq.amqp_port)
        for proxy in (database, broker):
            self.addCleanup(proxy.close)
            proxy.stall(up=True, down=True)
        for _ in range(5):
            d = self.daemon(self.configuration(db_port=database.port, broker_port=broker.port))
            wait_until(d.status)
            began = time.monotonic()
            self.assertEqual(d.stop(), 0, d.log())
            self.assertLess(time.monotonic() - began, 3)


class Away(Case):
    def test_it_starts_with_database_and_broker_away_and_comes_up_by_itself(self):
        database = Proxy("127.0.0.1", self.postgres.pgport)
        broker = Proxy("127.0.0.1", self.rabbitmq.amqp_port)
        for proxy in (database, broker):
            self.addCleanup(proxy.close)
            proxy.refuse()
        self.db.create_event_table()
        self.db.insert_many(10, streams=1)
        d = self.daemon(self.configuration(db_port=database.port, broker_port=broker.port))
        f = d.wait_state("disconnected")
        self.assertFalse(f["source"]["connected"])
        stays(d.alive, 0.5)
        database.resume()
        wait_until(self.db.checkpoint, 15)
        d.wait_state("disconnected")
        broker.resume()
        self.assertEqual(self.receive_ids(10, 20), [str(i) for i in range(1, 11)])
        d.wait_state("idle")

    def test_a_database_that_says_nothing_is_given_up_and_found_again(self):
        proxy = Proxy("127.0.0.1", self.postgres.pgport)
        self.addCleanup(proxy.close)
        self.db.create_event_table()
        c = self.configuration(db_port=proxy.port)
        c["connections"]["db"]["postgresql"].update({"connect_timeout": "2s", "statement_timeout": "2s"})
        d = self.daemon(c)
        d.wait_state("idle")
        proxy.stall(down=True)
        self.db.insert_many(10, streams=1)
        d.wait_state("disconnected", seconds=20)
        proxy.resume()
        self.assertEqual(self.receive_ids(10, 30), [str(i) for i in range(1, 11)])


class Status(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def test_the_document_tells_what_happened(self):
        self.db.insert_many(50)
        d = self.daemon()
        self.receive(50)
        self.wait_saved(50)
        f = d.wait_state("idle")
        for key in ("name", "state", "reason", "resumes", "since", "healthy", "culprit", "source", "sink", "checkpoint",
                    "lag", "window", "counts", "lease"):
            self.assertIn(key, f)
        self.assertEqual(f["source"]["connection"], "db")
        self.assertEqual(f["source"]["mode"], "snapshot")
        self.assertEqual(f["sink"], {**f["sink"], "connection": "rabbit", "kind": "rabbitmq", "connected": True})
        self.assertEqual((f["counts"]["read"], f["counts"]["published"], f["counts"]["confirmed"]), (50, 50, 50))
        wait_until(lambda: d.status()["checkpoint"]["position"] == 50)
        self.assertEqual((f["window"]["events"], f["lag"]["seconds"]), (0, 0))
        code, document = d.get("/status/orders")
        self.assertEqual(code, 200)
        self.assertEqual(d.get("/status/nobody")[0], 404)
        self.assertEqual(d.get("/nothing")[0], 404)
        code, document = d.get("/status")
        self.assertTrue({"version", "instance", "started", "healthy", "forwarders"} <= document.keys())

    def test_health_is_503_with_the_reason_while_an_event_waits_too_long(self):
        self.rabbitmq.unbind(self.queue, self.exchange)
        d = self.daemon(self.configuration(health={"max_age": "1s"}))
        d.wait_state("idle")
        self.assertEqual(d.get("/health")[0], 200)
        self.db.insert(id="1", type="a.b")
        wait_until(lambda: d.get("/health")[0] == 503)
        self.assertIn("orders", json.dumps(d.get("/health")[1]))
        self.assertGreaterEqual(d.status()["lag"]["seconds"], 1)
        self.rabbitmq.bind(self.queue, self.exchange)
        wait_until(lambda: d.get("/health")[0] == 200)

    def test_the_socket_is_for_owner_and_group_only_and_goes_away(self):
        d = self.daemon()
        d.wait_state("idle")
        self.assertEqual(stat.S_IMODE(os.stat(d.socket).st_mode), 0o660)
        self.assertEqual(d.stop(), 0)
        self.assertFalse(os.path.exists(d.socket))

    def test_a_stale_socket_is_replaced_and_a_live_one_refused(self):
        d = self.daemon()
        d.wait_state("idle")
        second = self.daemon(name="second", start=False)
        second.write({**self.configuration(), "status": {"socket": d.socket}})
        second.start()
        self.assertEqual(second.wait(), 71)
        self.assertIsNotNone(d.status())
        d.kill()
        self.assertTrue(os.path.exists(d.socket))
        d.start()
        d.wait_state("idle")

    def test_a_requester_that_says_nothing_holds_nobody_up(self):
        d = self.daemon()
        d.wait_state("idle")
        silent = [socket.socket(socket.AF_UNIX) for _ in range(20)]
        for s in silent:
            s.connect(d.socket)
            s.sendall(b"GET /sta")
        self.db.insert_many(10)
        self.receive(10)
        for s in silent:
            s.close()
        wait_until(d.status)


class Command(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def test_status_prints_a_line_for_each_forwarder(self):
        self.db.insert_many(5)
        d = self.daemon()
        self.wait_saved(5)
        d.wait_state("idle")
        for options in (["-c", d.config_file], ["-s", d.socket]):
            code, out, err = penstock(*options, "status")
            self.assertEqual(code, 0, err)
            self.assertRegex(out, r"orders\s.*idle")
        code, out, _ = penstock("-s", d.socket, "status", "--json")
        self.assertEqual(json.loads(out)["forwarders"][0]["name"], "orders")
        code, out, _ = penstock("status", "orders", "-s", d.socket)
        self.assertEqual(code, 0)
        self.assertIn("idle", out)
        d.stop()
        self.assertEqual(penstock("-s", d.socket, "status")[0], 69)

    def test_check_finds_what_the_daemon_would_and_starts_nothing(self):
        d = self.daemon(start=False)
        code, out, err = penstock("-c", d.config_file, "check")
        self.assertEqual(code, 0, out + err)
        self.assertIsNone(self.db.checkpoint())
        c = self.configuration()
        c["forwarders"]["orders"]["windoww"] = {"events": 5}
        d.write(c)
        code, out, err = penstock("check", "-c", d.config_file)
        self.assertEqual(code, 1)
        self.assertIn("window", out + err)

    def test_what_config_prints_loads_again_to_the_same(self):
        d = self.daemon(start=False)
        code, out, err = penstock("-c", d.config_file, "config")
        self.assertEqual(code, 0, err)
        self.assertIn("2000", out)              # a default is shown
        again = self.daemon(out, name="again", start=False)
        code, second, err = penstock("-c", again.config_file, "config")
        self.assertEqual((code, second), (0, out), err)

    def test_schema_prints_sql_that_runs(self):
        for arguments in ([], ["--event-table", "made.by_us"], ["--role", "penstock_test_role"]):
            code, out, err = penstock("schema", *arguments)
            self.assertEqual(code, 0, err)
            self.db.sql("CREATE SCHEMA IF NOT EXISTS made")
            self.db.sql("DO $$ BEGIN CREATE ROLE penstock_test_role; EXCEPTION WHEN duplicate_object THEN END $$")
            self.db.sql("DROP SCHEMA IF EXISTS penstock CASCADE")
            self.db.sql(out)
            self.assertIsNotNone(self.db.value("SELECT to_regclass('penstock.checkpoint')"))
        self.assertIsNotNone(self.db.value("SELECT 1 FROM pg_attribute WHERE attrelid = 'made.by_us'::regclass "
                                           "AND atttypid = 'xid8'::regtype AND attnum > 0"))


class Secrets(Case):
    """G14"""

    SECRET = "s3cr3t-Pass/word"

    def test_no_password_and_no_payload_leaves_it(self):
        self.db.create_event_table()
        user = f"user{Case.stories}"
        self.rabbitmq.ctl("add_user", user, self.SECRET)
        self.rabbitmq.ctl("set_permissions", user, ".*", ".*", ".*")
        c = self.configuration()
        c["connections"]["db"]["postgresql"]["conninfo"] += " password=pg-s3cr3t"
        c["connections"]["rabbit"]["rabbitmq"] = {
            "uri": f"amqp://{user}@127.0.0.1:{self.rabbitmq.amqp_port}/", "password": {"env": "RABBIT"}}
        self.db.insert(id="good", type="a.b", streamid="a", data={"card": "4111-payload"})
        self.db.insert(id="bad", type="k" * 256, streamid="b", data={"card": "4111-payload"})
        d = self.daemon(c, {"RABBIT": self.SECRET})
        self.receive(1)
        d.wait_state("held")
        self.rabbitmq.ctl("close_all_connections", "bye")
        d.wait_state("held")
        _, config, _ = penstock("-c", d.config_file, "config", environment={"RABBIT": self.SECRET})
        self.assertIn(user, config)
        with open(f"/proc/{d.process.pid}/cmdline") as f:
            cmdline = f.read()
        told = d.log() + json.dumps(d.get("/status")[1]) + config + cmdline
        d.stop()
        told += d.log()
        for secret in (self.SECRET, "pg-s3cr3t", "4111-payload"):
            self.assertNotIn(secret, told)

    def test_an_inline_password_is_masked(self):
        self.db.create_event_table()
        c = self.configuration()
        c["connections"]["rabbit"]["rabbitmq"]["uri"] = f"amqp://guest:{self.SECRET.replace('/', '%2F')}@127.0.0.1:1/"
        d = self.daemon(c)
        d.wait_state("disconnected")
        _, config, _ = penstock("-c", d.config_file, "config")
        for secret in (self.SECRET, self.SECRET.replace("/", "%2F")):
            self.assertNotIn(secret, config + d.log() + json.dumps(d.get("/status")[1]))

    def test_a_secret_file_that_others_can_read_is_refused(self):
        path = os.path.join(self.directory, "secret")
        with open(path, "w") as f:
            f.write("guest\n")
        os.chmod(path, 0o644)
        c = self.configuration()
        c["connections"]["rabbit"]["rabbitmq"] = {"uri": f"amqp://guest@127.0.0.1:{self.rabbitmq.amqp_port}/",
                                                  "password": {"file": path}}
        self.db.create_event_table()
        d = self.daemon(c)
        self.assertIn(path, d.wait_state("disconnected")["reason"])
        os.chmod(path, 0o600)
        d.wait_state("idle")


class OtherSinks(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def configured(self, kind):
        c = self.configuration({"orders": self.forwarder(rules=[{"name": "all", "to": {}}])})
        c["connections"]["rabbit"] = {kind: {}}
        return c

    def test_stdout_prints_a_line_of_json_for_each_event(self):
        self.db.insert_many(100, streams=1)
        d = self.daemon(self.configured("stdout"), start=False)
        path = os.path.join(self.directory, "out")
        with open(path, "wb") as out:
            d.start(stdout=out)
        self.wait_saved(100)
        self.assertEqual(d.stop(), 0)
        with open(path) as f:
            events = [json.loads(line) for line in f]
        self.assertEqual([e["id"] for e in events], [str(i) for i in range(1, 101)])
        self.assertEqual(events[0]["data"], {"n": 1})
        self.assertEqual(events[0]["specversion"], "1.0")

    def test_null_takes_everything(self):
        self.db.insert_many(5000)
        d = self.daemon(self.configured("null"))
        self.wait_saved(5000)
        self.assertEqual(d.status()["counts"]["confirmed"], 5000)


class Memory(Case):
    def test_it_does_not_grow_with_the_backlog(self):
        """G9: 40 MB while draining, whatever waits."""
        self.db.create_event_table()
        self.db.insert_many(60000, streams=500)
        d = self.daemon()
        peak = 0

        def drained():
            nonlocal peak
            peak = max(peak, d.rss_bytes())
            return (self.db.checkpoint_position() or 0) >= 60000
        wait_until(drained, 60, every=0.05)
        if "PENSTOCKD_UNDER" not in os.environ and "build-" not in PENSTOCKD:
            self.assertLess(peak, 40 << 20)


if __name__ == "__main__":
    main()
