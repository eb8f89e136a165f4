"""G14: marked secrets stand in every place they can stand in; nothing that leaves the daemon or the command has them."""

import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, free_port, main, penstock

# Letters only, so that no encoding hides one; each says where it stood.
MARK = "Qzx"


def mark(place):
    return MARK + place.title().replace(" ", "")


class Secrets(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()
        self.told = {}      # where something was said: what

    def file(self, place, mode=0o600):
        path = os.path.join(self.directory, place)
        with open(path, "w") as f:
            f.write(mark(place) + "\n")
        os.chmod(path, mode)
        return path

    def tell(self, where, text):
        self.told[where] = self.told.get(where, "") + text

    def tell_of(self, d, environment=None):
        """All that can be had of a daemon and of the command, as often as this is called."""
        for path in ("/status", "/status/orders", "/health", "/ready", "/metrics", "/nothing"):
            self.tell(f"GET {path}", d.get_text(path)[2])
        self.tell("OpenMetrics", d.get_text("/metrics", {"Accept": "application/openmetrics-text"})[2])
        for verb, body in (("pause", None), ("resume", None), ("skip", '{"position": 5, "reason": "r"}')):
            self.tell(f"POST {verb}", d.ask("POST", f"/forwarders/orders/{verb}", body)[2])
        for arguments in (("status",), ("status", "orders"), ("status", "--json"), ("check",), ("check", "--json"),
                          ("check", "--connect"), ("check", "--connect", "--json"), ("config",),
                          ("schema",)):
            done = penstock("-c", d.config_file, *arguments, environment=environment)
            self.tell(f"penstock {' '.join(arguments)}", done[1] + done[2])
        with open(f"/proc/{d.process.pid}/cmdline") as f:
            self.tell("cmdline", f.read())
        for task in os.listdir(f"/proc/{d.process.pid}/task"):
            with open(f"/proc/{d.process.pid}/task/{task}/comm") as f:
                self.tell("names of threads", f.read())
        self.tell("log", d.log())
        self.tell("application name", json.dumps(self.db.sql("SELECT application_name FROM pg_stat_activity")))
        if self.db.value("SELECT to_regclass('penstock.journal') IS NOT NULL"):
            for table in ("checkpoint", "journal", "gap"):
                self.tell(f"penstock.{table}", json.dumps(self.db.sql(f"SELECT to_jsonb(t)::text FROM penstock.{table} t")))

    def assert_nothing_told(self):
        self.assertGreater(len(self.told["log"]), 100)
        for where, text in self.told.items():
            found = re.search(f"{MARK}[A-Za-z0-9]*", text, re.I)
            self.assertIsNone(found, f"{where}: ...{text[max(0, found.start() - 200):found.end() + 50]}..." if found else "")

    def configured(self, **rabbit):
        c = self.configuration()
        c["connections"]["rabbit"]["rabbitmq"] = {**c["connections"]["rabbit"]["rabbitmq"], **rabbit}
        return c

    def test_payloads_of_events_that_go_are_held_returned_and_skipped(self):
        data = {"card": mark("payload")}
        d = self.daemon(environment={"PENSTOCK_LOG_LEVEL": "debug"})
        self.db.insert(id="good", type="a.b", streamid="a", data=data)
        self.receive(1)
        self.db.insert(id="bad", type="k" * 256, streamid="b", data=data)
        self.db.insert(id="wrong", type="", streamid="c", data=data)
        self.rabbitmq.unbind(self.queue, self.exchange)
        self.db.insert(id="returned", type="a.b", streamid="d", data=data)
        d.wait_state("held")
        self.tell_of(d)
        position = d.status()["culprit"]["position"]
        done = penstock("-s", d.socket, "skip", "orders", str(position), "--reason", "test")
        self.assertEqual(done[0], 0, done[2])
        self.tell("penstock skip", done[1])
        self.rabbitmq.ctl("close_all_connections", "bye")
        d.wait_log("broker.*bye|reading")
        self.tell_of(d)
        d.stop()
        self.tell("log", d.log())
        self.assert_nothing_told()

    def test_passwords_that_are_refused_by_database_and_broker(self):
        for place in ({"env": "RABBIT"}, {"file": self.file("rabbit file")}, {"credential": "rabbit-credential"}):
            with self.subTest(place):
                credentials = os.path.join(self.directory, "credentials")
                os.makedirs(credentials, exist_ok=True)
                with open(os.path.join(credentials, "rabbit-credential"), "w") as f:
                    f.write(mark("credential"))
                os.chmod(f.name, 0o600)
                environment = {"RABBIT": mark("rabbit env"), "CREDENTIALS_DIRECTORY": credentials, "PENSTOCK_LOG_LEVEL": "debug"}
                c = self.configured(uri=f"amqp://nobody@127.0.0.1:{self.rabbitmq.amqp_port}/", password=place)
                c["connections"]["db"]["postgresql"]["password"] = {"env": "DB"}
                environment["DB"] = mark("database env")
                d = self.daemon(c, environment, name=f"d{len(self.daemons)}")
                d.wait_state("disconnected")
                d.wait_log("ACCESS_REFUSED|refused")
                self.tell_of(d, environment)
                d.stop()
                self.db.sql("DROP SCHEMA IF EXISTS penstock CASCADE")
        self.assert_nothing_told()

    def test_passwords_that_stand_in_the_configuration_itself(self):
        password = mark("inline")
        for uri in (f"amqp://guest:{password}@127.0.0.1:{self.rabbitmq.amqp_port}/", f"amqp://guest:{password}@127.0.0.1:{free_port()}/",
                    f"amqps://guest:{password}@127.0.0.1:{self.rabbitmq.amqp_port}/"):
            c = self.configured(uri=uri)
            c["connections"]["db"]["postgresql"]["conninfo"] += f" password={mark('conninfo')}"
            d = self.daemon(c, {"PENSTOCK_LOG_LEVEL": "debug"}, name=f"d{len(self.daemons)}")
            d.wait_state("disconnected")
            self.tell_of(d)
            d.stop()
        self.assert_nothing_told()

    def test_passwords_in_a_configuration_that_is_refused(self):
        password = mark("refused")
        d = self.daemon(start=False)
        for rabbit, database in (
                (f"amqp://guest:{password}@:x/", "host=/tmp"), (f"amqp://guest:{password}@@h/", f"host password={password}"),
                (f"http://guest:{password}@h/", f"postgresql://u:{password}@h:x/db"), (f"amqp://guest:{password}@h/%zz", f"password='{password}"),
                (f"amqp://guest:{password}@h/?a=b", f"passwort={password}")):
            c = self.configured(uri=rabbit)
            c["connections"]["db"]["postgresql"]["conninfo"] = database
            d.write(c)
            d.start()
            self.assertEqual(d.wait(), 78, d.log())
            for arguments in (("check",), ("check", "--json"),
                          ("check", "--connect"), ("check", "--connect", "--json"), ("config",), ("schema",), ("status",)):
                done = penstock("-c", d.config_file, *arguments)
                self.tell(f"penstock {' '.join(arguments)}", done[1] + done[2])
        self.tell("log", d.log())
        self.assert_nothing_told()

    def test_passwords_of_kafka(self):
        for password in ({"env": "KAFKA"}, mark("kafka inline")):
            c = self.configuration({"orders": self.forwarder(rules=[{"name": "all", "to": {"topic": "orders"}}])})
            c["connections"]["rabbit"] = {"kafka": {
                "bootstrap.servers": f"127.0.0.1:{free_port()}", "security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN",
                "sasl.username": "nobody", "sasl.password": password}}
            environment = {"KAFKA": mark("kafka env"), "PENSTOCK_LOG_LEVEL": "debug"}
            d = self.daemon(c, environment, name=f"d{len(self.daemons)}")
            d.wait_state("disconnected", "refused")
            self.tell_of(d, environment)
            d.stop()
            self.tell("log", d.log())
        self.assert_nothing_told()

    def test_the_search_finds_what_it_searches_for(self):
        self.told = {"log": "x" * 200 + mark("planted")}
        with self.assertRaises(AssertionError):
            self.assert_nothing_told()


if __name__ == "__main__":
    main()
