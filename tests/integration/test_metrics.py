"""GET /metrics: read by what others wrote, and true to what happened."""

import http.client
import os
import socket
import subprocess
import sys
import time
import unittest

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, PATIENCE, free_port, main, wait_until

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def samples(families):
    """{(name, labels but for the forwarder): value}"""
    return {(s.name, tuple(sorted(v for k, v in s.labels.items() if k != "forwarder"))): s.value
            for family in families for s in family.samples}


class Metrics(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def text(self, d, accept=None):
        code, kind, text = d.get_text("/metrics", {"Accept": accept} if accept else {})
        self.assertEqual(code, 200)
        self.assertTrue(kind.startswith("application/openmetrics-text; version=1.0.0" if accept else "text/plain; version=0.0.4"), kind)
        return text

    def test_both_formats_are_read_by_others_and_say_the_same(self):
        self.db.insert_many(50)
        d = self.daemon()
        self.receive(50)
        self.wait_saved(50)
        d.wait_state("idle")
        wait_until(lambda: d.status()["checkpoint"]["position"] == 50)
        plain, opened = self.text(d), self.text(d, OPENMETRICS)
        ours = samples(parse_prometheus(plain))
        also = samples(parse_openmetrics(opened))
        self.assertEqual(set(ours), set(also))
        for found in (ours, also):
            for outcome, count in (("read", 50), ("published", 50), ("confirmed", 50), ("returned", 0), ("parked", 0)):
                self.assertEqual(found["penstock_events_total", (outcome,)], count)
            self.assertEqual(found["penstock_checkpoint_position", ()], 50)
            self.assertEqual(found["penstock_read_position", ()], 50)
            self.assertEqual(found["penstock_healthy", ()], 1)
            self.assertEqual(sum(v for (name, _), v in found.items() if name == "penstock_state"), 1)
            self.assertEqual(found["penstock_confirm_seconds_count", ()], 50)
            self.assertEqual(found["penstock_delivery_seconds_count", ()], 50)
            self.assertGreater(found["penstock_read_seconds_count", ()], 0)
            self.assertEqual(found["penstock_save_seconds_count", ()], found["penstock_checkpoint_writes_total", ()])
            self.assertGreater(found["penstock_checkpoint_writes_total", ()], 0)
            self.assertGreater(found["penstock_delivery_seconds_sum", ()], found["penstock_confirm_seconds_sum", ()] * 0.5)

    def test_promtool_has_nothing_to_say(self):
        self.db.insert_many(5)
        d = self.daemon()
        self.wait_saved(5)
        done = subprocess.run(["promtool", "check", "metrics"], input=self.text(d), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_trouble_is_seen(self):
        self.rabbitmq.unbind(self.queue, self.exchange)
        d = self.daemon(self.configuration(health={"max_age": "1s"}))
        d.wait_state("idle")
        self.db.insert(id="1", type="a.b")
        wait_until(lambda: samples(parse_prometheus(self.text(d)))["penstock_healthy", ()] == 0)
        found = samples(parse_openmetrics(self.text(d, OPENMETRICS)))
        self.assertEqual(found["penstock_state", ("held",)], 1)
        self.assertGreaterEqual(found["penstock_lag_seconds", ()], 1)
        self.assertGreater(found["penstock_events_total", ("returned",)], 0)
        self.assertEqual(found["penstock_window_events", ()], 1)
        self.rabbitmq.bind(self.queue, self.exchange)
        self.rabbitmq.ctl("close_all_connections", "bye")
        wait_until(lambda: samples(parse_prometheus(self.text(d)))["penstock_reconnects_total", ("broker",)] == 1)

    def test_the_rate_is_that_of_the_last_seconds(self):
        d = self.daemon()
        d.wait_state("idle")
        self.assertEqual(d.status()["rate"], 0)
        self.db.insert_many(2000)
        wait_until(lambda: d.status()["rate"] > 100)
        wait_until(lambda: d.status()["rate"] == 0, 20)


class Port(Case):
    """status.metrics"""

    def setUp(self):
        super().setUp()
        self.db.create_event_table()
        self.port = free_port()

    def over_tcp(self, method, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def daemon_with_port(self, **keys):
        d = self.daemon(start=False)
        d.write(self.configuration(status={"socket": d.socket, "metrics": f"127.0.0.1:{self.port}"}, **keys))
        d.start()
        d.wait_state("idle")
        return d

    def test_it_reads_and_commands_nothing(self):
        self.daemon_with_port()
        code, text = self.over_tcp("GET", "/metrics")
        self.assertEqual(code, 200)
        self.assertEqual(samples(parse_prometheus(text))["penstock_healthy", ()], 1)
        self.assertEqual(self.over_tcp("GET", "/health")[0], 200)
        for path in ("/forwarders/orders/pause", "/status", "/metrics"):
            self.assertEqual(self.over_tcp("POST", path)[0], 405)

    def test_a_port_that_is_taken_ends_the_start_with_71(self):
        with socket.create_server(("127.0.0.1", self.port)):
            d = self.daemon(start=False)
            d.write(self.configuration(status={"socket": d.socket, "metrics": f"127.0.0.1:{self.port}"}))
            d.start()
            self.assertEqual(d.wait(), 71)
            self.assertIn(f"status.metrics 127.0.0.1:{self.port}", d.log())
            self.assertFalse(os.path.exists(d.socket))

    def test_half_open_and_silent_clients_hold_up_neither_the_socket_nor_the_events(self):
        d = self.daemon_with_port()
        hostile = []
        for i in range(300):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", self.port))
            hostile.append(s)
            self.addCleanup(s.close)
        for i, s in enumerate(hostile):
            try:
                if i % 3:       # each third says nothing at all
                    s.send(b"GET /metrics HTTP/1.1\r\nX: " if i % 3 == 1 else b"GET /sta")
            except OSError:     # still in the backlog's queue
                pass
        silent = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        for s in silent:
            s.connect(d.socket)
            self.addCleanup(s.close)
        began = time.monotonic()
        for _ in range(50):
            self.assertEqual(d.get("/status")[0], 200)
        self.db.insert_many(1000)
        self.assertEqual(len(self.receive(1000)), 1000)
        self.assertLess(time.monotonic() - began, 5 * PATIENCE)
        self.assertEqual(d.stop(), 0)


if __name__ == "__main__":
    main()
