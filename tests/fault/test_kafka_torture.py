"""Kafka and what its users do to it, with everything of tests/fault/torture.py beside it."""

import os
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), HERE]
from kafka_story import KafkaStory
from penstock import main, wait_until
from torture import Torture


class Kafka(Torture, KafkaStory):
    partitions = 6

    def prepare_broker(self):
        self.second = self.new_topic("second", 2)
        self.to_all, self.to_copies = {"topic": self.topic}, {"topic": self.second}
        self.readers = {self.topic: self.kafka.reader(self.topic), self.second: self.kafka.reader(self.second)}
        return self.proxies()

    def proxies(self):
        return self.kafka.proxy()

    def broker_connection(self, port=None):
        # A request is given up within a stall, sent again, and recognised by the broker.
        return {"kafka": {"bootstrap.servers": f"127.0.0.1:{port}", "socket.timeout.ms": "3000"}}

    def drain(self):
        for topic, deliveries in ((self.topic, self.main), (self.second, self.copies)):
            deliveries.add(self.readers[topic].take(30), self.now)

    def drain_to_the_end(self):
        """While nothing reaches the broker any more: what it had read is written, too."""
        before = -1
        while before < self.main.total:
            before = self.main.total
            time.sleep(0.3)
            self.drain()

    def restart_broker(self):
        self.kafka.restart()

    def kill_broker(self):
        self.kafka.kill()
        self.kafka.start()

    def freeze_broker(self):
        self.kafka.freeze()
        time.sleep(self.rng.choice([0.5, 5]))
        self.kafka.thaw()

    def make_topic_again(self):
        self.kafka.create_topic(self.topic, self.partitions, self.replicas, **self.topic_config)
        self.readers[self.topic].close()
        self.readers[self.topic] = self.kafka.reader(self.topic)
        # It knows nothing of the producer: of requests that were on the way it may refuse the first, not the second.
        self.main.excused = {str(id): version for id, version in self.db.sql("SELECT id, version FROM stream")}

    def remake_topic(self):
        """Under load: what was confirmed since the last look went with the topic, and no more than that."""
        self.drain()
        before = wait_until(self.penstockd.status)["counts"]["confirmed"]
        self.drain()
        self.kafka.delete_topic(self.topic)
        wait_until(lambda: self.penstockd.status()["state"] != "delivering", 10, "noticed")
        self.main.gone_at_most += self.penstockd.status()["counts"]["confirmed"] - before
        self.main.gone |= {id for (id,) in self.db.sql("SELECT id FROM event")} - self.main.times.keys()
        time.sleep(self.rng.random() * 2)
        self.make_topic_again()

    def remake_topic_while_nothing_moves(self):
        """Everything that was confirmed has been seen: what the daemon does not know of comes to the new topic."""
        os.kill(self.penstockd.process.pid, signal.SIGSTOP)
        try:
            self.broker_proxy.cut()
            self.drain_to_the_end()
            self.kafka.delete_topic(self.topic)
        finally:
            os.kill(self.penstockd.process.pid, signal.SIGCONT)
        time.sleep(self.rng.random() * 2)
        self.make_topic_again()

    def remake_topic_with_requests_on_the_way(self):
        """Some come while it isn't there, others when it is again and knows nothing of who sent them."""
        self.broker_proxy.stall(up=True)
        self.drain_to_the_end()
        self.kafka.delete_topic(self.topic)
        resume = threading.Timer(self.rng.random() * 0.15, self.broker_proxy.resume)
        resume.start()
        self.make_topic_again()
        resume.join()

    FAILURES = Torture.FAILURES + [restart_broker, kill_broker, freeze_broker, remake_topic,
                                   remake_topic_while_nothing_moves, remake_topic_with_requests_on_the_way]


class Proxies:
    """Those of a cluster, as if it were one."""

    def __init__(self, proxies):
        self.proxies = proxies
        self.port = proxies[0].port

    def __getattr__(self, verb):
        return lambda *arguments, **keys: [getattr(proxy, verb)(*arguments, **keys) for proxy in self.proxies]


class Cluster(Kafka):
    """Three nodes, each event on all of them, two of which must have it: any one may go."""

    server_options = ("--nodes", "3")
    replicas = 3
    topic_config = {"min_insync_replicas": 2}

    def proxies(self):
        return Proxies([self.kafka.proxy(node) for node in (1, 2, 3)])

    def some_node(self):
        return self.rng.randrange(1, 4)

    def kill_node(self):
        node = self.some_node()
        self.kafka.kill(node)
        time.sleep(self.rng.random() * 3)
        self.kafka.start_node(node)

    def restart_node(self):
        self.kafka.restart(self.some_node())

    def freeze_node(self):
        node = self.some_node()
        self.kafka.freeze(node)
        time.sleep(self.rng.choice([0.5, 6]))   # its leases are over after three seconds
        self.kafka.thaw(node)

    def cut_off_node(self):
        proxy = self.rng.choice(self.broker_proxy.proxies)
        proxy.refuse()
        time.sleep(self.rng.random() * 4)
        proxy.resume()

    def too_few_replicas(self):
        """All three must have it and one is away: nothing may be confirmed, and nothing given up."""
        first, second = self.rng.sample(range(1, 4), 2)
        self.kafka.alter_topic(self.topic, min_insync_replicas=3)
        self.kafka.kill(first)
        time.sleep(4)
        self.kafka.start_node(first)
        self.kafka.alter_topic(self.topic, min_insync_replicas=2)
        self.kafka.kill(second)
        self.kafka.start_node(second)

    FAILURES = Kafka.FAILURES + [kill_node, restart_node, freeze_node, cut_off_node, too_few_replicas]


if __name__ == "__main__":
    main()
