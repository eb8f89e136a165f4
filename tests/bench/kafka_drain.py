"""kafka_drain: a backlog into a topic of six partitions, and the latency at 1,000 events/s, against the bare libraries and
Kafka's own producer benchmark, which reads nothing."""

import multiprocessing
import os
import re
import statistics
import threading
import time

import confluent_kafka

from measure import BUILD, KEYS, Measure, Penstockd, wait_until
from kafka_broker import Kafka

BARE = os.path.join(BUILD, "tests", "bench", "bare_kafka")
PAGE_ROWS = "1000"
IN_FLIGHT = 5000        # what penstockd has by default
PARTITIONS = 6
BYTES = 200


class KafkaBench(Measure):
    def __init__(self, rows, rounds):
        super().__init__(rows, rounds, "bench-kafka", BYTES)
        self.kafka = Kafka(os.path.join(self.directory, "kafka"))

    def start(self):
        self.start_postgres()
        self.kafka.start("--full")
        for topic in ("bare", "penstock", "own", "latency"):
            self.kafka.create_topic(topic, PARTITIONS)
        self.broker = (("kafka", self.broker_pid()),)

    def broker_pid(self):
        with open(os.path.join(self.kafka.directory, "home")) as f:
            home = f.read().strip()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as f:
                    if home in f.read() and os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "java":
                        return int(pid)
            except OSError:
                continue
        raise RuntimeError("the broker's process was not found")

    def clean(self):
        self.kafka.clean()
        self.postgres.clean()

    def connection(self):
        return {"kafka": {"bootstrap.servers": self.kafka.kafka_bootstrap}}

    # The drain. ---------------------------------------------------------------------

    def bare(self, linger_ms):
        return self.drain_bare([BARE, self.db.conninfo(), PAGE_ROWS, self.kafka.kafka_bootstrap, "bare", str(IN_FLIGHT),
                                linger_ms], self.broker)

    def own(self):
        """Kafka's own; it tells the rate of the whole run."""
        out = self.kafka.call("tool", "org.apache.kafka.tools.ProducerPerformance", "--topic", "own", "--num-records",
                              str(self.rows), "--record-size", str(BYTES), "--throughput", "-1", "--producer-props",
                              f"bootstrap.servers={self.kafka.kafka_bootstrap}", "acks=all", "enable.idempotence=true")
        return float(re.findall(r"([\d.]+) records/sec", out)[-1])

    def drain(self):
        configuration = self.configuration(self.db, self.connection(), {"topic": "penstock"})
        f = self.in_turn("drain kafka", {
            "bare": lambda: self.bare("1"),     # better of the two that penstockd may use (linger follows load)
            "bare_0ms": lambda: self.bare("0"),
            "penstock": lambda: self.drain_penstock("drain", configuration, self.db, self.broker)})["penstock"]
        own = statistics.median(self.own() for _ in range(self.rounds))
        self.figures["drain kafka"]["own"] = {"events_per_second": own}
        print(f"drain kafka ratio: {f['ratio_events_per_second']:.2f} of the rate (wanted 0.9), {f['ratio_cpu_us']:.2f} times the "
              f"CPU (wanted at most 1.3), {f['rss_mb']:.1f} MB (wanted 40); {f['events_per_second'] / own:.2f} of the "
              f"rate of Kafka's own benchmark ({own:.0f}/s)", flush=True)

    # Latency. -----------------------------------------------------------------------

    @staticmethod
    def consume(bootstrap, count, pipe):
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "latency"})
        consumer.assign([confluent_kafka.TopicPartition("latency", p, 0) for p in range(PARTITIONS)])
        arrived = {}
        pipe.send("ready")
        deadline = time.monotonic() + 120
        while len(arrived) < count and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                arrived[dict(message.headers())["ce_id"]] = time.time()
        pipe.send(arrived)
        consumer.close()

    def latency(self, rate=1000, seconds=15, writers=4):
        """Commit as the writer sees it to delivery as a consumer does (a little later than the report)."""
        count, committed = rate * seconds, {}
        ours, theirs = multiprocessing.Pipe()
        consumer = multiprocessing.Process(target=self.consume, args=(self.kafka.kafka_bootstrap, count, theirs))
        consumer.start()
        ours.recv()
        self.db.sql("DROP SCHEMA IF EXISTS penstock CASCADE")
        d = Penstockd(os.path.join(self.directory, "latency"),
                      self.configuration(self.db, self.connection(), {"topic": "latency"}, {"start": "now"})).start()
        wait_until(lambda: (d.status("bench") or {}).get("state") == "idle", 30)
        began = time.monotonic() + 0.2

        def write(writer):
            connection = self.db.connect()
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute("SET synchronous_commit = off")     # the writers' disk is not what is measured
            for n in range(writer, count, writers):
                time.sleep(max(0.0, began + n / rate - time.monotonic()))
                cursor.execute("INSERT INTO event (id, source, type, streamid, data) VALUES (%s, '/x', 'a.b', %s, '{}')",
                               (f"l{n}", f"s{n % KEYS}"))
                committed[f"l{n}"] = time.time()
        threads = [threading.Thread(target=write, args=(w,)) for w in range(writers)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        arrived = ours.recv()
        consumer.join()
        d.stop()
        d.done()
        if len(arrived) != count:
            raise RuntimeError(f"{len(arrived)} of {count} events arrived")
        # The commit is stamped after its reply, so a fast event can be a hair before it.
        ms = sorted(max(0.0, (arrived[id.encode()] - at) * 1000) for id, at in committed.items())
        f = {"p50_ms": ms[len(ms) // 2], "p99_ms": ms[len(ms) * 99 // 100], "max_ms": ms[-1]}
        self.figures["latency kafka"] = f
        print(f"commit to delivery at {rate}/s, kafka: p50 {f['p50_ms']:.1f} ms (wanted 2), p99 {f['p99_ms']:.1f} ms "
              f"(wanted 10), max {f['max_ms']:.1f} ms", flush=True)

    def run(self):
        self.drain()
        self.latency()
