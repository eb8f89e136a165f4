"""Penstock installed, under a real systemd as PID 1: what penstockd.service promises."""

import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from kafka_story import KafkaStory
from machine import UNIT, Machine
from penstock import Case, main, wait_until

MESSAGE_IDS = dict(re.findall(r'#define MESSAGE_ID_(\w+) "(\w+)"', open(os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "base", "message_id.h")).read()))

_machines = []


class Service:
    """A story whose daemon is the unit of a machine that all of them share."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not _machines:
            machine = Machine(os.path.join(os.path.dirname(cls.logs), "machine"))
            _machines.append(machine)
            # systemd's own directory for it, as on a real one.
            machine.start(f"{cls.postgres.pghost}:/run/postgresql", *cls.binds())
            machine.install()
        cls.machine = _machines[0]

    @classmethod
    def binds(cls):
        return []

    def setUp(self):
        super().setUp()
        self.db.create_event_table()
        self.machine.run("journalctl", "--rotate", "--vacuum-time=1s")
        self.addCleanup(self.leave)

    def leave(self):
        """Nothing of it for the next story."""
        with open(os.path.join(self.directory, "journal.log"), "w") as f:
            f.write(self.machine.journal("-o", "short-precise"))
        self.machine.systemctl("stop", UNIT, check=False)
        self.machine.systemctl("reset-failed", UNIT, check=False)
        self.machine.run("sh", "-c", f"rm -rf /etc/systemd/system/{UNIT}.d /etc/penstock/conf.d; systemctl daemon-reload")

    def configuration(self, *arguments, **keys):
        """The database through its socket's usual directory; our own socket where the unit expects it."""
        configuration = super().configuration(*arguments, **keys)
        configuration["connections"]["db"]["postgresql"]["conninfo"] = (
            f"host=/run/postgresql port={self.postgres.pgport} user=penstock dbname={self.db.name}")
        return configuration

    def start(self, configuration=None):
        self.machine.configure(configuration or self.configuration())
        self.machine.systemctl("start", UNIT)


class Running(Service, Case):
    def test_it_starts_is_ready_and_delivers(self):
        self.db.insert_many(50)
        self.start()
        self.assertEqual(self.machine.show("ActiveState"), "active")
        self.assertEqual(self.machine.show("StatusText"), "1 forwarder")
        self.receive(50)
        self.wait_saved(50)
        code, out, _ = self.machine.run("penstock", "status", check=False)
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"orders +(idle|delivering)")

    def test_it_runs_as_nobody_else_and_its_files_are_for_its_group_alone(self):
        self.start()
        pid = self.machine.main_pid()
        user = self.machine.out("id", "-u", "penstock")
        with open(self.machine.path(f"/proc/{pid}/status")) as f:
            status = f.read()
        self.assertRegex(status, rf"Uid:\t{user}\t{user}\t{user}\t{user}\n")
        self.assertRegex(status, r"CapEff:\t0+\n")
        self.assertRegex(status, r"NoNewPrivs:\t1\n")
        self.assertRegex(status, r"Seccomp:\t2\n")
        modes = self.machine.out("stat", "-c", "%a %U:%G %n", "/etc/penstock", "/etc/penstock/penstock.yaml", "/run/penstock",
                                 "/run/penstock/status.sock").splitlines()
        self.assertEqual(modes, ["750 root:penstock /etc/penstock", "640 root:penstock /etc/penstock/penstock.yaml",
                                 "750 penstock:penstock /run/penstock", "660 penstock:penstock /run/penstock/status.sock"])
        ask = ["setpriv", "--reuid", "nobody", "--regid", "nogroup"]
        socket = ["penstock", "-s", "/run/penstock/status.sock", "status"]
        self.assertEqual(self.machine.run(*ask, "--clear-groups", *socket, check=False)[0], 69)
        self.assertEqual(self.machine.run(*ask, "--groups", "penstock", *socket, check=False)[0], 0)

    def test_it_is_exposed_less_than_two(self):
        out = self.machine.out("systemd-analyze", "security", "--no-pager", UNIT)
        level = float(re.search(r"Overall exposure level for penstockd.service: ([\d.]+)", out).group(1))
        self.assertLess(level, 2.0, out)
        code, out, err = self.machine.run("systemd-analyze", "verify", "--man=no", UNIT, check=False)
        self.assertEqual((code, [l for l in err.splitlines() if "penstock" in l]), (0, []), out)

    def test_frozen_it_is_killed_and_started_anew_by_the_watchdog(self):
        self.machine.drop_in("watchdog", "WatchdogSec=1", "RestartSec=100ms")
        self.db.insert_many(1000)
        self.start()
        self.machine.wait_state("delivering", "idle")
        pid = self.machine.main_pid()
        self.machine.signal("SIGSTOP")
        wait_until(lambda: self.machine.show("NRestarts") == "1", 15, every=0.1)
        wait_until(lambda: self.machine.show("ActiveState") == "active", 15, every=0.1)
        self.assertNotEqual(self.machine.main_pid(), pid)
        self.assertRegex(self.machine.journal(), r"(?i)watchdog timeout")
        self.db.insert_many(10, first=1001)
        self.wait_saved(1010)
        self.assertEqual({m.id for m in self.rabbitmq.take(self.queue)}, {str(n + 1) for n in range(1010)})

    def test_while_it_works_the_watchdog_is_fed(self):
        self.machine.drop_in("watchdog", "WatchdogSec=600ms")
        self.start()
        pid = self.machine.main_pid()
        for n in range(4):
            self.db.insert_many(10, first=1 + n * 10)
            self.wait_saved(10 + n * 10)
            threading.Event().wait(0.1)
        self.assertEqual((self.machine.main_pid(), self.machine.show("NRestarts")), (pid, "0"))

    def test_stopped_under_load_it_settles_saves_and_repeats_nothing(self):
        self.start()
        self.machine.wait_state("idle")
        stop = threading.Event()
        written = [0]

        def write():
            connection = self.db.connect()
            while not stop.is_set():
                with connection, connection.cursor() as cursor:
                    cursor.execute("INSERT INTO event (id, type, streamid, data) SELECT (%s + i)::text, 'order.placed', "
                                   "'s' || i %% 10, '{}' FROM generate_series(1, 100) s(i)", (written[0],))
                written[0] += 100
                stop.wait(0.01)
            connection.close()
        writer = threading.Thread(target=write)
        writer.start()
        try:
            wait_until(lambda: (self.db.checkpoint_position() or 0) > 2000, 20)
            self.machine.systemctl("stop", UNIT)
        finally:
            stop.set()
            writer.join()
        self.assertEqual((self.machine.show("Result"), self.machine.show("ExecMainStatus")), ("success", "0"))
        self.assertLess(self.db.checkpoint_position(), written[0])
        self.machine.systemctl("start", UNIT)
        self.wait_saved(written[0], seconds=30)
        ids = [m.id for m in self.rabbitmq.take(self.queue)]
        self.assertEqual(len(ids), len(set(ids)), "some came twice")
        self.assertEqual(set(ids), {str(n + 1) for n in range(written[0])})

    def test_however_often_it_fails_it_is_started_again(self):
        self.machine.drop_in("restart", "RestartSec=50ms")
        self.start()
        for n in range(8):      # systemd gives up after 5 in 10 s, unless it is told otherwise
            pid = self.machine.main_pid()
            self.machine.signal("SIGKILL")
            wait_until(lambda: self.machine.main_pid() not in (0, pid) and self.machine.show("ActiveState") == "active", 10)
        self.assertEqual(self.machine.show("NRestarts"), "8")
        self.db.insert_many(10)
        self.receive(10)

    def test_a_refused_configuration_is_not_tried_again_and_the_journal_says_all(self):
        self.machine.configure("connections:\n  db:\n    postgresql: {conninf: x}\nforwarders: {}\nstop_timeout: soon\n")
        self.assertNotEqual(self.machine.systemctl("start", UNIT, check=False)[0], 0)
        self.assertEqual([self.machine.show(p) for p in ("ActiveState", "ExecMainStatus", "NRestarts")], ["failed", "78", "0"])
        journal = self.machine.journal("-x")
        for words in ("penstock.yaml:3:", "conninfo", "stop_timeout", "penstock check", "The configuration of Penstock is refused"):
            self.assertIn(words, journal)
        self.assertEqual(len(self.machine.entries(f"MESSAGE_ID={MESSAGE_IDS['CONFIGURATION_REFUSED']}")), 1)

    def test_the_journal_has_the_fields_and_the_catalog_explains(self):
        self.rabbitmq.unbind(self.queue, self.exchange)
        self.db.insert(id="e1", type="order.placed", streamid="s1", data={})
        self.start()
        self.machine.wait_state("held")
        held = wait_until(lambda: self.machine.entries(f"MESSAGE_ID={MESSAGE_IDS['HELD']}"), 10, every=0.1)[0]
        self.assertEqual([held.get(f"PENSTOCK_{f}") for f in ("FORWARDER", "STATE", "POSITION", "EVENT_ID")],
                         ["orders", "held", "1", "e1"])
        self.assertIn(self.exchange, held["PENSTOCK_DESTINATION"])
        returned = self.machine.entries("PENSTOCK_FORWARDER=orders", "PENSTOCK_POSITION=1", "PENSTOCK_EVENT_ID=e1")[0]
        self.assertIn(self.exchange, returned["PENSTOCK_DESTINATION"])
        self.assertIn("NO_ROUTE", returned["PENSTOCK_ERROR"])
        self.assertEqual((held["_SYSTEMD_UNIT"], held["SYSLOG_IDENTIFIER"], held["PRIORITY"]), (UNIT, "penstockd", "4"))
        journal = self.machine.journal("-x")
        self.assertIn("Subject: Forwarder orders is held", journal)
        self.assertIn("penstock status orders", journal)
        self.rabbitmq.bind(self.queue, self.exchange)
        self.receive(1)
        wait_until(lambda: self.machine.entries(f"MESSAGE_ID={MESSAGE_IDS['RECOVERED']}"), 10, every=0.1)


class Reloading(Service, Case):
    def reload(self, configuration):
        self.machine.configure(configuration)
        return self.machine.systemctl("reload", UNIT, check=False)[0]

    def test_a_good_one_is_in_force_without_a_restart(self):
        configuration = self.configuration()
        self.start(configuration)
        self.machine.wait_state("idle")
        pid = self.machine.main_pid()
        configuration["forwarders"]["orders"]["rules"][0]["to"]["routing_key"] = "changed"
        configuration["forwarders"]["again"] = self.forwarder(rules=[{"skip": True}])
        self.assertEqual(self.reload(configuration), 0)
        self.machine.wait_state("idle", forwarder="again")
        wait_until(lambda: self.machine.show("StatusText") == "2 forwarders", 10, every=0.1)
        self.db.insert_many(3)
        self.assertEqual([m.routing_key for m in self.receive(3)], ["changed"] * 3)
        self.assertEqual((self.machine.main_pid(), self.machine.show("ActiveState"), self.machine.show("NRestarts")),
                         (pid, "active", "0"))
        self.assertEqual(len(self.machine.entries(f"MESSAGE_ID={MESSAGE_IDS['RELOADED']}")), 1)

    def test_a_bad_one_fails_and_changes_nothing(self):
        configuration = self.configuration()
        self.start(configuration)
        self.machine.wait_state("idle")
        pid = self.machine.main_pid()
        self.assertNotEqual(self.reload({**configuration, "stop_timeout": "soon"}), 0)
        self.assertEqual((self.machine.main_pid(), self.machine.show("ActiveState")), (pid, "active"))
        self.assertIn("stop_timeout", self.machine.journal())
        # Whoever sends the signal himself is told in the journal and by systemctl status.
        self.machine.signal("SIGHUP")
        wait_until(lambda: "refused" in self.machine.show("StatusText"), 10, every=0.1)
        self.assertIn("Subject: The changed configuration of Penstock is refused", self.machine.journal("-x"))
        self.db.insert_many(3)
        self.receive(3)
        self.assertEqual(self.reload(configuration), 0)
        wait_until(lambda: self.machine.show("StatusText") == "1 forwarder", 10, every=0.1)
        self.assertEqual(self.machine.main_pid(), pid)

    def test_a_place_that_would_be_lost_is_kept_and_said(self):
        configuration = self.configuration()
        self.start(configuration)
        self.machine.wait_state("idle")
        configuration["forwarders"]["orders"]["source"]["table"] = "public.event"
        self.reload(configuration)
        self.machine.wait_journal("source.table was event and is public.event.*another name")
        self.assertEqual(self.machine.status()["source"]["table"], "event")
        # The other way: a restart.
        self.machine.systemctl("restart", UNIT)
        self.machine.wait_state("idle")
        self.assertEqual(self.machine.status()["source"]["table"], "public.event")


class Secrets(Service, Case):
    def test_a_password_comes_by_load_credential_and_stays_secret(self):
        self.rabbitmq.ctl("add_user", self.name, "s3cret-by-credential")
        self.rabbitmq.ctl("set_permissions", self.name, "^$", f"^{re.escape(self.exchange)}$", "^$")
        self.machine.write("/etc/penstock/broker.password", "s3cret-by-credential\n", 0o600)
        self.machine.drop_in("broker", "LoadCredential=rabbit:/etc/penstock/broker.password")
        configuration = self.configuration()
        configuration["connections"]["rabbit"] = {"rabbitmq": {
            "uri": f"amqp://{self.name}@127.0.0.1:{self.rabbitmq.amqp_port}/", "password": {"credential": "rabbit"}}}
        self.start(configuration)
        self.db.insert_many(10)
        self.receive(10)
        self.assertNotIn("s3cret", self.machine.journal("-o", "verbose"))
        pid = self.machine.main_pid()
        for file in ("cmdline", "environ"):
            with open(self.machine.path(f"/proc/{pid}/{file}"), "rb") as f:
                self.assertNotIn(b"s3cret", f.read())

    def test_rabbitmq_over_tls(self):
        with open(self.rabbitmq.ca_file) as f:
            self.machine.write("/etc/penstock/ca.pem", f.read())
        configuration = self.configuration()
        configuration["connections"]["rabbit"] = {"rabbitmq": {
            "uri": f"amqps://guest:guest@localhost:{self.rabbitmq.amqps_port}/", "tls": {"ca_file": "/etc/penstock/ca.pem"}}}
        self.start(configuration)
        self.db.insert_many(10)
        self.receive(10)


class OverKafka(Service, KafkaStory):
    def test_kafka_over_tls_with_a_password_by_credential(self):
        with open(self.kafka.ca_file) as f:
            self.machine.write("/etc/penstock/kafka-ca.pem", f.read())
        self.machine.write("/etc/penstock/kafka.password", self.kafka.kafka_password, 0o600)
        self.machine.drop_in("kafka", "LoadCredential=kafka:/etc/penstock/kafka.password")
        configuration = self.configuration()
        configuration["connections"]["kafka"] = {"kafka": {
            "bootstrap.servers": self.kafka.kafka_sasl_tls_bootstrap, "security.protocol": "sasl_ssl",
            "ssl.ca.location": "/etc/penstock/kafka-ca.pem", "sasl.mechanism": "PLAIN", "sasl.username": "alice",
            "sasl.password": {"credential": "kafka"}}}
        self.db.insert_many(100)
        self.start(configuration)
        self.receive(100)
        self.wait_saved(100)


def tearDownModule():
    for machine in _machines:
        machine.clean()


if __name__ == "__main__":
    main()
