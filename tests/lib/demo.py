"""demo: the story that tests/demo tells (see there)"""

import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pika

from kafka_broker import Kafka
from penstock import BUILD, PENSTOCK, PENSTOCKD, Message, Postgres, RabbitMQ, wait_until

KEPT = os.path.join(BUILD, "demo")      # where the one that was kept lives
ORDERS = 3000
SHOPS = 6

CONFIGURATION = """\
connections:
  shop-db:
    postgresql: {{conninfo: "{conninfo}"}}
  shop-broker:
    {connection}

forwarders:
  order-events:
    source:
      connection: shop-db
      table: public.event
    sink: {{connection: shop-broker}}
    rules:
      - name: orders
        filter: {{prefix: {{type: com.shop.order.}}}}
        to: {orders}
      - name: rest
        to: {rest}

status:
  socket: {home}/status.sock
"""

COLOURS = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def bold(text):
    return f"\033[1m{text}\033[0m" if COLOURS else text


def dim(text):
    return f"\033[2m{text}\033[0m" if COLOURS else text


def step(text):
    print(f"\n{bold(text)}", flush=True)


def say(text=""):
    print(f"  {text}", flush=True)


# A broker and somebody else's consumer behind it. ----------------------------------------

# What the consumer saw: one line for the terminal, and the whole message in several.
Arrived = collections.namedtuple("Arrived", "id stream version line whole")


class RabbitSide:
    name, place = "RabbitMQ", "queue"
    orders = '{exchange: shop, routing_key: "order.{type|last|lower}"}'
    rest = '{exchange: shop, routing_key: "other.{type|last|lower}"}'

    def __init__(self, home):
        self.home = home
        self.server = RabbitMQ(os.path.join(home, "rabbitmq"))

    def connection(self):
        return f'rabbitmq: {{uri: "{self.server.uri()}"}}'

    def prepare(self):
        self.channel = pika.BlockingConnection(self.server.parameters()).channel()
        self.channel.exchange_declare("shop", "topic", durable=True)
        self.channel.queue_declare("all-orders", durable=True)
        self.channel.queue_bind("all-orders", "shop", "order.#")
        return f"RabbitMQ on port {self.server.amqp_port}: exchange shop, queue all-orders bound to order.#"

    def take(self):
        arrived = []
        while True:
            method, properties, body = self.channel.basic_get("all-orders", auto_ack=True)
            if method is None:
                return arrived
            m = Message(method, properties, body)
            whole = [f"content_type {properties.content_type}, message_id {properties.message_id}, "
                     f"delivery_mode {properties.delivery_mode}"]
            whole += [f"{name}: {value}" for name, value in sorted(m.headers.items())]
            arrived.append(Arrived(m.id, m.headers["cloudEvents_streamid"], int(m.headers["cloudEvents_streamversion"]),
                                   f"{m.routing_key:14} {body.decode()}", whole))

    def look(self, here):
        return "how many wait in the queue", f"{here}/rabbitmq ctl {self.server.directory} list_queues"


class KafkaSide:
    name, place = "Kafka", "topic"
    orders = "{topic: shop.orders}"
    rest = "{topic: shop.rest}"

    def __init__(self, home):
        self.home = home
        self.server = Kafka(os.path.join(home, "kafka"))

    def connection(self):
        return f'kafka: {{bootstrap.servers: "{self.server.kafka_bootstrap}"}}'

    def prepare(self):
        self.server.create_topic("shop.orders", 6)
        self.server.create_topic("shop.rest")
        self.reader = self.server.reader("shop.orders")
        return f"Kafka on port {self.server.kafka_port}: topics shop.orders (6 partitions), shop.rest"

    def take(self):
        return [Arrived(r.id, r.headers["ce_streamid"], int(r.headers["ce_streamversion"]),
                        f"partition {r.partition}  {r.key.decode():6} {r.value.decode()}",
                        [f"key {r.key.decode()}, partition {r.partition}, offset {r.offset}"] +
                        [f"{name}: {value}" for name, value in sorted(r.headers.items())]) for r in self.reader.take()]

    def look(self, here):
        return "what is in the topic", f"kcat -C -e -b {self.server.kafka_bootstrap} -t shop.orders -f '%p %o %k %s\\n'"


class Consumer:
    """Counts each event and looks whether each customer's arrived in order."""

    def __init__(self, broker):
        self.broker = broker
        self.times = collections.Counter()
        self.versions = {}      # stream -> the version of its last first delivery
        self.in_order = True

    def take(self):
        arrived = self.broker.take()
        for a in arrived:
            self.times[a.id] += 1
            if self.times[a.id] == 1:
                self.in_order = self.in_order and a.version > self.versions.get(a.stream, 0)
                self.versions[a.stream] = a.version
        return arrived


class Demo:
    def __init__(self, home, broker):
        self.home, self.broker = home, broker
        self.postgres = Postgres(os.path.join(home, "postgres"))
        self.consumer = Consumer(broker)
        self.config_file = os.path.join(home, "penstock.yaml")
        self.log_file = os.path.join(home, "penstockd.log")
        self.pid_file = os.path.join(home, "penstockd.pid")
        self.daemon = None

    # The parts. ---------------------------------------------------------------------

    def start_servers(self):
        step(f"1. A PostgreSQL and a {self.broker.name} of our own")
        servers = (self.postgres, self.broker.server)
        threads = [threading.Thread(target=server.start) for server in servers]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if not all(server.started for server in servers):
            raise RuntimeError("a server did not start")
        self.db = self.postgres.connect("shop")
        self.db.autocommit = True
        say(f"PostgreSQL on port {self.postgres.pgport}, database shop")
        say(self.broker.prepare())

    def sql(self, statement, *parameters):
        cursor = self.db.cursor()
        cursor.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else None

    def make_tables(self):
        step("2. An event table, and Penstock's own: the SQL is printed by `penstock schema`")
        command = [PENSTOCK, "schema", "--event-table", "public.event"]
        say(dim("$ penstock schema --event-table public.event | psql shop"))
        statements = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.sql(statements)
        table = re.search(r"CREATE TABLE[^;]*event[^;]*;", statements)
        for line in (table.group(0) if table else "").splitlines():
            say(line)

    def write_configuration(self):
        step("3. What goes where")
        text = CONFIGURATION.format(conninfo=self.postgres.conninfo("shop"), connection=self.broker.connection(),
                                    orders=self.broker.orders, rest=self.broker.rest, home=self.home)
        with open(self.config_file, "w", encoding="utf-8") as f:
            f.write(text)
        for line in text.splitlines():
            say(line)
        subprocess.run([PENSTOCK, "-c", self.config_file, "check"], check=True, stdout=subprocess.DEVNULL)

    def start_daemon(self):
        with open(self.log_file, "ab") as log:
            self.daemon = subprocess.Popen([PENSTOCKD, "-c", self.config_file], stdin=subprocess.DEVNULL, stdout=log,
                                           stderr=log, start_new_session=True)
        with open(self.pid_file, "w") as f:
            f.write(str(self.daemon.pid))

    def checkpoint(self):
        rows = self.sql("SELECT position, cursor FROM penstock.checkpoint WHERE forwarder = 'order-events'")
        return rows[0] if rows else (0, None)

    def order(self, cursor, customer, version, type):
        cursor.execute("""INSERT INTO event (id, source, type, subject, time, streamid, streamversion, data)
            VALUES (gen_random_uuid(), '/shop/orders', %s, %s, now(), %s, %s, %s) RETURNING id::text""",
                       (f"com.shop.order.{type}", customer, customer, version,
                        json.dumps({"customer": customer, "article": f"A-{random.randrange(1000)}", "amount": version})))
        return cursor.fetchone()[0]

    def first_orders(self):
        step("4. The daemon runs; a shop writes three orders and commits")
        self.start_daemon()
        cursor = self.db.cursor()
        ids = [self.order(cursor, "alice", n + 1, type) for n, type in enumerate(("Placed", "Paid", "Shipped"))]
        arrived = []
        wait_until(lambda: arrived.extend(self.consumer.take()) or len(arrived) >= 3, 20, "three orders at the consumer")
        if [a.id for a in arrived] != ids:
            raise AssertionError(f"{ids} were written, {[a.id for a in arrived]} arrived")
        for a in arrived:
            say(a.line)
        say("The first one, whole, as a consumer sees it:")
        for line in arrived[0].whole:
            say(f"    {line}")
        wait_until(lambda: self.checkpoint()[0] >= 3, 5, "the checkpoint at 3")
        say(f"The checkpoint has followed: position {self.checkpoint()[0]}, cursor {self.checkpoint()[1]}")

    def shop(self, number, committed):
        """Many orders in transactions of 1 to 5; every tenth is rolled back."""
        connection = self.postgres.connect("shop")
        cursor = connection.cursor()
        versions = {f"customer-{number}-{n}": 0 for n in range(50)}
        while sum(versions.values()) < ORDERS // SHOPS:
            customer, count = random.choice(list(versions)), random.randint(1, 5)
            ids = [self.order(cursor, customer, versions[customer] + n + 1, "Placed") for n in range(count)]
            if random.random() < 0.1:
                connection.rollback()
                continue
            connection.commit()
            committed.update(ids)
            versions[customer] += count
            time.sleep(0.002)
        connection.close()

    def half_way(self):
        """Half is written and some of it has settled: an idle daemon looks once a second only."""
        return self.checkpoint()[0] > ORDERS // 10 and self.sql("SELECT count(*) FROM event")[0][0] > ORDERS // 2

    def kill_half_way(self):
        step(f"5. {SHOPS} shops write about {ORDERS} orders at once, some roll back; half-way the daemon is killed with -9")
        committed = set()
        shops = [threading.Thread(target=self.shop, args=(n, committed)) for n in range(SHOPS)]
        for t in shops:
            t.start()
        wait_until(self.half_way, 30, "half of them")
        self.daemon.kill()
        self.daemon.wait()
        self.consumer.take()
        say(f"killed: {len(self.consumer.times)} events have arrived, the checkpoint says {self.checkpoint()[0]}, "
            "the shops go on writing")
        for t in shops:
            t.join()
        say(f"all written, {len(committed)} orders committed; nothing moves: the checkpoint still says {self.checkpoint()[0]}")
        self.start_daemon()
        last = self.sql("SELECT max(position) FROM event")[0][0]
        wait_until(lambda: self.checkpoint()[0] >= last, 30, f"the checkpoint at {last}")
        self.consumer.take()
        say(f"started again: the checkpoint says {self.checkpoint()[0]}")

    def count(self):
        step("6. Is anything missing?")
        committed = {id for (id,) in self.sql("SELECT id::text FROM event")}
        missing = committed - self.consumer.times.keys()
        twice = sum(1 for n in self.consumer.times.values() if n > 1)
        say(f"committed in the table   {len(committed):6}")
        say(f"{f'arrived in the {self.broker.place}':24} {len(self.consumer.times):6}")
        say(f"missing                  {len(missing):6}")
        say(f"never committed          {len(self.consumer.times.keys() - committed):6}")
        say(f"arrived more than once   {twice:6}   (were under way when it was killed: same source, same id)")
        say(f"order of each customer     {'kept' if self.consumer.in_order else 'BROKEN'}")
        return not missing and self.consumer.times.keys() == committed and self.consumer.in_order

    def look_around(self):
        step("Everything is still running. Look around:")
        psql = f"psql -h {self.postgres.pghost} -p {self.postgres.pgport} -U penstock shop"
        here = os.path.relpath(os.path.dirname(os.path.abspath(__file__)))
        for what, command in [
            ("its state", f"{os.path.relpath(PENSTOCK)} -c {self.config_file} status"),
            ("the same as JSON", f"curl -s --unix-socket {self.home}/status.sock http://p/status"),
            ("its log", f"tail -f {self.log_file}"),
            ("the checkpoint", f"{psql} -c 'TABLE penstock.checkpoint'"),
            ("another order", f"{psql} -c \"INSERT INTO event (source, type, streamid, streamversion, data) VALUES "
                              "('/shop/orders', 'com.shop.order.Placed', 'bob', 1, '{}')\""),
            self.broker.look(here),
            ("end it all", "tests/demo --stop"),
        ]:
            print(f"\n  # {what}\n  {command}")

    def end_daemon(self):
        """Ours, or the one that --keep left (if the process of that number is still it)."""
        if self.daemon:
            self.daemon.terminate()
            try:
                self.daemon.wait(25)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
            return
        with open(self.pid_file) as f:
            pid = int(f.read())
        with open(f"/proc/{pid}/cmdline") as f:
            if self.config_file in f.read():
                os.kill(pid, signal.SIGTERM)
                wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 25)

    def clean(self):
        try:
            self.end_daemon()
        except (OSError, ValueError):
            pass
        for server in (self.postgres, self.broker.server):
            server.started = os.path.exists(os.path.join(server.directory, "home"))
            server.clean()
        shutil.rmtree(self.home, ignore_errors=True)

    def run(self, keep):
        self.start_servers()
        self.make_tables()
        self.write_configuration()
        self.first_orders()
        self.kill_half_way()
        good = self.count()
        if good and keep:
            self.look_around()
        return good


def clean_kept():
    if os.path.exists(KEPT):
        with open(KEPT) as f:
            home = f.read()
        Demo(home, KafkaSide(home) if os.path.exists(os.path.join(home, "kafka")) else RabbitSide(home)).clean()
        os.unlink(KEPT)


def main():
    clean_kept()
    if "--stop" in sys.argv:
        return 0
    keep = "--keep" in sys.argv
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    home = tempfile.mkdtemp(prefix="pk-demo.")
    demo = Demo(home, KafkaSide(home) if "--kafka" in sys.argv else RabbitSide(home))
    began = time.monotonic()
    good = False
    try:
        good = demo.run(keep)
    except Exception as e:      # noqa: BLE001  (the story ends here, with its reason)
        print(f"\n{e}", file=sys.stderr)
        if os.path.exists(demo.log_file):
            with open(demo.log_file) as f:
                print("".join(f.readlines()[-15:]), file=sys.stderr)
    finally:
        if good and keep:
            with open(KEPT, "w") as f:
                f.write(demo.home)
        else:
            demo.clean()
    step(f"{'Nothing is missing.' if good else 'THE DEMO FAILED.'} {dim(f'({time.monotonic() - began:.0f} s)')}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
