"""penstock: what the integration and fault tests are written with.

Real servers through tests/lib/postgres and tests/lib/rabbitmq, a real penstockd,
and a consumer that others wrote (pika). Nothing here waits by sleeping for a
guessed time: wait_until looks at a condition up to a deadline.
"""

import atexit
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

import pika
import psycopg2
import psycopg2.extensions

from proxy import Proxy  # noqa: F401  (tests take it from here)

LIB = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(LIB))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
PENSTOCKD = os.environ.get("PENSTOCKD", os.path.join(BUILD, "penstockd"))
PENSTOCK = os.environ.get("PENSTOCK", os.path.join(BUILD, "penstock"))
LOGS = os.environ.get("PENSTOCK_TEST_LOGS", os.path.join(BUILD, "logs"))
# Under a sanitizer or on a busy machine everything takes longer, but nothing is ever waited out in full.
PATIENCE = float(os.environ.get("PENSTOCK_TEST_PATIENCE", "1"))


def wait_until(condition, seconds=10, what=None, every=0.01):
    """Returns the condition's first true value; fails the test after the deadline."""
    end = time.monotonic() + seconds * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds * PATIENCE:g} s: {what or condition.__doc__ or condition}")
        time.sleep(every)


def stays(condition, seconds, what=None, every=0.02):
    """The condition holds all the time: for what must *not* happen while something else does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not condition():
            raise AssertionError(f"changed within {seconds:g} s: {what or condition}")
        time.sleep(every)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One of the two scripts and the directory it works in."""

    script = ""

    def __init__(self, directory):
        self.directory = directory
        self.started = False

    def call(self, verb, *arguments):
        done = subprocess.run([os.path.join(LIB, self.script), verb, self.directory, *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180)
        if done.returncode != 0:
            raise RuntimeError(f"{self.script} {verb}: {done.stderr.strip()} {done.stdout.strip()}")
        return done.stdout

    def start(self, *arguments):
        self.call("start", *arguments)
        self.started = True
        for line in self.call("env").splitlines():
            name, _, value = line.partition("=")
            setattr(self, name.lower(), value)

    def kill(self):
        self.call("kill")

    def stop(self, *how):
        self.call("stop", *how)

    def restart(self, *how):
        self.call("restart", *how)

    def clean(self):
        if self.started:
            self.call("clean")


class Postgres(Server):
    script = "postgres"

    def conninfo(self, database, port=None):
        """Through the Unix socket; with a port through TCP (a proxy's, say)."""
        if port is None:
            return f"host={self.pghost} port={self.pgport} user=penstock dbname={database}"
        return f"host=127.0.0.1 port={port} user=penstock dbname={database}"

    def connect(self, database):
        return psycopg2.connect(self.conninfo(database))


class Database:
    """A database of one test."""

    def __init__(self, postgres, name):
        self.postgres, self.name = postgres, name
        self.connection = None
        admin = postgres.connect("postgres")
        admin.autocommit = True
        admin.cursor().execute(f'CREATE DATABASE "{name}"')
        admin.close()

    def conninfo(self, port=None):
        return self.postgres.conninfo(self.name, port)

    def connect(self):
        return self.postgres.connect(self.name)

    def sql(self, statement, *parameters):
        """One statement in a transaction of its own; its rows, if it has any."""
        if self.connection is None or self.connection.closed:
            self.connection = self.connect()
            self.connection.autocommit = True
        cursor = self.connection.cursor()
        cursor.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else None

    def value(self, statement, *parameters):
        rows = self.sql(statement, *parameters)
        return rows[0][0] if rows else None

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    # The table of most tests: every default column of Penstock.
    def create_event_table(self, table="event", data="jsonb"):
        self.sql(f"""
            CREATE TABLE {table} (
                position bigserial PRIMARY KEY,
                id text NOT NULL DEFAULT gen_random_uuid()::text,
                source text NOT NULL DEFAULT '/shop/orders',
                type text NOT NULL,
                subject text,
                time timestamptz,
                datacontenttype text,
                dataschema text,
                streamid text,
                streamversion bigint,
                data {data},
                extensions jsonb,
                xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
                recorded_at timestamptz NOT NULL DEFAULT clock_timestamp());
            CREATE INDEX ON {table} (xid, position)""")

    def insert(self, table="event", **columns):
        """One row, committed; returns its position."""
        names = ", ".join(columns)
        places = ", ".join(["%s"] * len(columns))
        values = [json.dumps(v) if isinstance(v, (dict, list)) else v for v in columns.values()]
        return self.value(f"INSERT INTO {table} ({names}) VALUES ({places}) RETURNING position", *values)

    def insert_many(self, count, first=1, streams=10, table="event", type="order.placed"):
        """`count` rows with ids `first`…, spread over `streams` streams."""
        self.sql(f"""INSERT INTO {table} (id, type, streamid, streamversion, data)
            SELECT i::text, %s, 's' || i %% %s, i / %s, json_build_object('n', i)
            FROM generate_series(%s::int, %s::int) s(i) ORDER BY s.i""", type, streams, streams, first, first + count - 1)

    def checkpoint(self, forwarder="orders"):
        """The row as a dictionary; None without one."""
        if self.value("SELECT to_regclass('penstock.checkpoint') IS NULL"):
            return None
        rows = self.sql("SELECT to_jsonb(c) FROM penstock.checkpoint c WHERE forwarder = %s", forwarder)
        return rows[0][0] if rows else None

    def checkpoint_position(self, forwarder="orders"):
        row = self.checkpoint(forwarder)
        return None if row is None else row["position"]


class Message:
    """As the consumer saw it."""

    def __init__(self, method, properties, body):
        self.exchange, self.routing_key, self.redelivered = method.exchange, method.routing_key, method.redelivered
        self.properties, self.body = properties, body
        self.headers = {name: value for name, value in (properties.headers or {}).items()
                        if name != "x-penstock-tag"}
        self.tag = (properties.headers or {}).get("x-penstock-tag")

    @property
    def id(self):
        if self.properties.content_type == "application/cloudevents+json":
            return json.loads(self.body)["id"]
        for prefix in ("cloudEvents_", "cloudEvents:", "ce-"):
            if prefix + "id" in self.headers:
                return self.headers[prefix + "id"]
        raise AssertionError(f"no id among the headers {sorted(self.headers)}")

    def attribute(self, name):
        """Of binary mode with the usual prefix; None if it isn't there."""
        return self.headers.get("cloudEvents_" + name)

    @property
    def place(self):
        """For reports: which message it was."""
        return f"tag {self.tag}{' redelivered' if self.redelivered else ''}"


class RabbitMQ(Server):
    script = "rabbitmq"

    def __init__(self, directory):
        super().__init__(directory)
        self.connection = None

    def parameters(self, port=None):
        return pika.URLParameters(f"amqp://guest:guest@127.0.0.1:{port or self.amqp_port}/?heartbeat=0")

    def uri(self, port=None):
        return f"amqp://guest:guest@127.0.0.1:{port or self.amqp_port}/"

    def channel(self):
        """One for each use: a channel error closes it."""
        if self.connection is None or not self.connection.is_open:
            self.connection = pika.BlockingConnection(self.parameters())
        try:
            return self.connection.channel()
        except pika.exceptions.AMQPError:    # the broker was restarted meanwhile
            self.connection = pika.BlockingConnection(self.parameters())
            return self.connection.channel()

    def exchange(self, name, type="topic"):
        channel = self.channel()
        channel.exchange_declare(name, type, durable=True)
        channel.close()
        return name

    def queue(self, name, exchange=None, key="#", **arguments):
        """Durable; bound if an exchange is given. Arguments with _ for -."""
        channel = self.channel()
        channel.queue_declare(name, durable=True,
                              arguments={k.replace("_", "-"): v for k, v in arguments.items()})
        channel.close()
        if exchange:
            self.bind(name, exchange, key)
        return name

    def bind(self, queue, exchange, key="#"):
        channel = self.channel()
        channel.queue_bind(queue, exchange, key)
        channel.close()

    def unbind(self, queue, exchange, key="#"):
        channel = self.channel()
        channel.queue_unbind(queue, exchange, key)
        channel.close()

    def take(self, queue, limit=None):
        """What is there now, removed; at most `limit`."""
        channel = self.channel()
        there = channel.queue_declare(queue, passive=True).method.message_count
        wanted = there if limit is None else min(limit, there)
        messages = []
        while len(messages) < wanted:
            # A batch is acknowledged when no consumer is left: the broker never hands over more than is taken. What
            # it had handed over besides would go back to its place only later, and the next take would miss it.
            batch = min(wanted - len(messages), 2000)
            channel.basic_qos(prefetch_count=batch)
            for method, properties, body in channel.consume(queue, inactivity_timeout=2):
                if method is None:
                    wanted = 0      # somebody else took it
                    break
                messages.append(Message(method, properties, body))
                last, batch = method.delivery_tag, batch - 1
                if batch == 0:
                    break
            channel.cancel()
            if messages:
                channel.basic_ack(last, multiple=True)
        channel.close()
        return messages

    def receive(self, queue, count, seconds=15, look=lambda: None):
        """`count` messages in their order, removed; what is more than that stays in the queue."""
        messages = []

        def enough():
            look()
            messages.extend(self.take(queue, count - len(messages)))
            return len(messages) >= count

        try:
            wait_until(enough, seconds, "all of them")
        except AssertionError as e:
            raise AssertionError(f"queue {queue}: {len(messages)} of {count} messages came, "
                                 f"the last {[m.id for m in messages[-3:]]}: {e}") from None
        return messages

    def count(self, queue):
        channel = self.channel()
        found = channel.queue_declare(queue, passive=True).method.message_count
        channel.close()
        return found

    def ctl(self, *arguments):
        return self.call("ctl", *arguments)

    def close(self):
        if self.connection is not None and self.connection.is_open:
            try:
                self.connection.close()
            except pika.exceptions.AMQPError:
                pass
        self.connection = None


class UnixHTTPConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("penstock", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Penstockd:
    """The daemon with a configuration of its own."""

    HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self, directory, configuration, environment=None):
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        self.config_file = os.path.join(directory, "penstock.yaml")
        self.log_file = os.path.join(directory, "penstockd.log")
        # A Unix socket's path is limited to 107 bytes; the directory's is not.
        self.short = tempfile.mkdtemp(prefix="pk-")
        self.socket = os.path.join(self.short, "s")
        self.environment = {**os.environ, **(environment or {})}
        self.process = None
        self.write(configuration)

    def write(self, configuration):
        """A dictionary is written as JSON, which is YAML too; text as it is."""
        if isinstance(configuration, dict):
            configuration = {"status": {"socket": self.socket}, **configuration}
            configuration = json.dumps(configuration, indent=1, ensure_ascii=False)
        with open(self.config_file, "w", encoding="utf-8") as f:
            f.write(configuration)

    def start(self, stdout=None):
        log = open(self.log_file, "ab")
        log.write(b"--- start\n")
        log.flush()
        command = os.environ.get("PENSTOCKD_UNDER", "").split() + [PENSTOCKD, "-c", self.config_file]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout or log, stderr=log,
                                        env=self.environment, start_new_session=True)
        log.close()
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pid(self):
        return self.process.pid

    def waits_for_signals(self):
        """Whichever comes before it has blocked them, first of all in its main(), ends it without a word."""
        try:
            with open(f"/proc/{self.pid()}/status", encoding="ascii") as f:
                blocked = int(re.search(r"SigBlk:\s+(\w+)", f.read()).group(1), 16)
        except OSError:
            return True     # it has ended
        return not self.alive() or all(blocked >> (number - 1) & 1 for number in self.HANDLED)

    def signal(self, number):
        if number in self.HANDLED:
            wait_until(self.waits_for_signals, 10, every=0.001)
        if self.alive():
            os.kill(self.pid(), number)

    def terminate(self):
        self.signal(signal.SIGTERM)

    def wait(self, seconds=25):
        """Its exit status."""
        return self.process.wait(timeout=seconds * PATIENCE)

    def stop(self, seconds=25):
        self.terminate()
        return self.wait(seconds)

    def log(self):
        with open(self.log_file, encoding="utf-8", errors="replace") as f:
            return f.read()

    def wait_log(self, pattern, seconds=10):
        """A regular expression somewhere in the log since the last start."""
        def found():
            return re.search(pattern, self.log().rpartition("--- start\n")[2])
        try:
            return wait_until(found, seconds)
        except AssertionError:
            raise AssertionError(f"not in the log within {seconds} s: {pattern}\n{self.log()[-3000:]}") from None

    def ask(self, method, path, body=None, headers=None):
        """(status, media type, body as text) on the status socket."""
        connection = UnixHTTPConnection(self.socket)
        try:
            try:
                connection.request(method, path, body, headers or {})
            except BrokenPipeError:     # refused before all of it was sent
                pass
            answer = connection.getresponse()
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
        finally:
            connection.close()

    def get_text(self, path, headers=None):
        return self.ask("GET", path, headers=headers)

    def get(self, path):
        """(status, body) of a GET on the status socket."""
        code, _, text = self.ask("GET", path)
        return code, json.loads(text)

    def status(self, forwarder="orders"):
        """Its part of /status; None while the socket does not answer."""
        try:
            code, document = self.get("/status")
        except (OSError, http.client.HTTPException):
            return None
        for f in document["forwarders"]:
            if f["name"] == forwarder:
                return f
        raise AssertionError(f"no forwarder {forwarder} in {document} ({code})")

    def wait_state(self, *states, forwarder="orders", seconds=10):
        last = {}

        def reached():
            if not self.alive():
                raise AssertionError(f"penstockd ended with {self.process.returncode}:\n{self.log()[-3000:]}")
            last["status"] = self.status(forwarder)
            return last["status"] if last["status"] and last["status"]["state"] in states else None
        try:
            return wait_until(reached, seconds)
        except AssertionError as e:
            raise AssertionError(f"not {' or '.join(states)}: {e}\n{json.dumps(last.get('status'), indent=1)}\n"
                                 f"{self.log()[-2000:]}") from None

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024

    def done(self):
        if self.alive():
            self.kill()
        shutil.rmtree(self.short, ignore_errors=True)


def penstock(*arguments, environment=None):
    """The operator's command: (exit status, standard output, standard error)."""
    done = subprocess.run([PENSTOCK, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, env={**os.environ, **(environment or {})})
    return done.returncode, done.stdout, done.stderr


_shared = {}


def shared(kind, *arguments):
    """One server of a kind for all stories of this process."""
    if not _shared:
        # A terminated run cleans up too: SystemExit runs what atexit knows.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if kind not in _shared:
        _shared[kind] = server = kind(os.path.join(LOGS, "servers", kind.script))
        shutil.rmtree(server.directory, ignore_errors=True)
        atexit.register(server.clean)
        server.start(*arguments)
    return _shared[kind]


class Story(unittest.TestCase):
    """A story with a database of its own and a daemon; what it publishes to, the class below it knows."""

    stories = 0             # numbers what each story makes on the servers
    own_servers = False     # for stories that stop and kill them all the time
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        for program in (PENSTOCKD, PENSTOCK):
            if not os.access(program, os.X_OK):
                raise RuntimeError(f"{program} is not built (make)")
        cls.logs = os.path.join(LOGS, cls.__module__.rpartition(".")[2], cls.__name__)
        shutil.rmtree(cls.logs, ignore_errors=True)
        os.makedirs(cls.logs)
        cls.postgres = cls.server(Postgres)

    @classmethod
    def server(cls, kind, *arguments):
        """One of this class's own, or the one of all."""
        if not cls.own_servers:
            return shared(kind, *arguments)
        server = kind(os.path.join(cls.logs, kind.script))
        cls.addClassCleanup(server.clean)
        server.start(*arguments)
        return server

    def run(self, result=None):
        before = 0 if result is None else len(result.failures) + len(result.errors)
        outcome = super().run(result)
        if result is not None and hasattr(self, "directory"):
            if len(result.failures) + len(result.errors) == before:
                shutil.rmtree(self.directory, ignore_errors=True)
            else:
                print(f"  logs of {self.id()}: {self.directory}", file=sys.stderr)
        return outcome

    def setUp(self):
        self.name = self._testMethodName.removeprefix("test_")[:100]
        self.directory = os.path.join(self.logs, self.name)
        os.makedirs(self.directory, exist_ok=True)
        Story.stories += 1
        self.daemons = []
        self.db = Database(self.postgres, f"t{Story.stories}_{self.name[:50]}")
        self.addCleanup(self.db.close)

    # A configuration: what most tests use, with what this one wants otherwise.
    def forwarder(self, source=None, sink=None, **keys):
        forwarder = {
            "source": {"connection": "db", "table": "event", **(source or {})},
            "sink": {"connection": self.broker, **(sink or {})},
            "rules": [{"name": "all", "to": self.destination()}],
            **keys,
        }
        return {k: v for k, v in forwarder.items() if v is not None}

    def configuration(self, forwarders=None, db_port=None, broker_port=None, **keys):
        if forwarders is None:
            forwarders = {"orders": self.forwarder()}
        return {
            "connections": {
                "db": {"postgresql": {"conninfo": self.db.conninfo(db_port)}},
                self.broker: self.broker_connection(broker_port),
            },
            "forwarders": forwarders,
            "checkpoint": {"create": True},
            **keys,
        }

    def daemon(self, configuration=None, environment=None, name="penstockd", start=True):
        """Started; killed when the test ends."""
        d = Penstockd(os.path.join(self.directory, name), configuration or self.configuration(), environment)
        self.daemons.append(d)
        self.addCleanup(d.done)
        return d.start() if start else d

    def daemon_for(self, source=None, sink=None, **keys):
        """With one forwarder that differs so far from the usual one."""
        return self.daemon(self.configuration({"orders": self.forwarder(source, sink, **keys)}))

    def look_at_daemons(self):
        """For whoever waits for what they do: one that has ended does no more."""
        for d in self.daemons:
            if d.process is not None and d.process.poll() not in (None, 0, -signal.SIGKILL):
                raise AssertionError(f"penstockd ended with {d.process.returncode}:\n{d.log()[-3000:]}")

    def daemon_logs(self):
        return "".join(f"\n{d.log_file}:\n{d.log()[-1500:]}" for d in self.daemons)

    def wait_saved(self, position, forwarder="orders", seconds=10):
        """The checkpoint has reached that position."""
        wait_until(lambda: (self.db.checkpoint_position(forwarder) or 0) >= position, seconds,
                   f"checkpoint of {forwarder} at {position}")


class Case(Story):
    """A story with an exchange and a queue of its own on RabbitMQ."""

    broker = "rabbit"       # its connection's name in the configuration

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rabbitmq = cls.server(RabbitMQ, *([] if cls.own_servers else ["--tls"]))
        if cls.own_servers:
            cls.addClassCleanup(cls.rabbitmq.close)

    def setUp(self):
        super().setUp()
        self.exchange = self.rabbitmq.exchange(f"x-{Case.stories}-{self.name}")
        self.queue = self.rabbitmq.queue(f"q-{Case.stories}-{self.name}", self.exchange)

    def bound_queue(self, name, key="#", **arguments):
        """A further exchange with a queue behind it, both of that name."""
        name = f"{name}-{Case.stories}"
        self.rabbitmq.exchange(name)
        return self.rabbitmq.queue(name, name, key, **arguments)

    def broker_connection(self, port=None):
        return {"rabbitmq": {"uri": self.rabbitmq.uri(port)}}

    def destination(self):
        return {"exchange": self.exchange, "routing_key": "{type}"}

    def receive(self, count, seconds=15, queue=None):
        """From this story's queue; without waiting for a daemon that has ended."""
        try:
            return self.rabbitmq.receive(queue or self.queue, count, seconds, self.look_at_daemons)
        except AssertionError as e:
            raise AssertionError(f"{e}{self.daemon_logs()}") from None

    def receive_ids(self, count, seconds=15):
        return [m.id for m in self.receive(count, seconds)]

    def assert_queue_empty(self, queue=None):
        self.assertEqual([m.id for m in self.rabbitmq.take(queue or self.queue)], [])


def main():
    unittest.main(verbosity=2)
