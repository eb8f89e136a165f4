"""kafka_broker: a real Kafka through tests/lib/kafka, and a consumer that others wrote (confluent-kafka).

    kafka_broker.py BOOTSTRAP create|delete TOPIC …     what `tests/lib/kafka topic` calls
"""

import ctypes
import json
import sys

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from penstock import Proxy, Server, wait_until


class Record:
    """As the consumer saw it: headers by name (text; None stays None), key and value as bytes or None."""

    def __init__(self, message):
        self.topic, self.partition, self.offset = message.topic(), message.partition(), message.offset()
        self.key, self.value, self.timestamp = message.key(), message.value(), message.timestamp()[1]
        self.header_list = message.headers() or []
        self.headers = {name: value if value is None else value.decode() for name, value in self.header_list}
        for _ in (value for _, value in self.header_list if value is None):
            # confluent-kafka 1.7 takes no reference to the None that it puts there, and Python dies of it in the end.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(None))

    @property
    def id(self):
        if (self.headers.get("content-type") or "").startswith("application/cloudevents+json"):
            return json.loads(self.value)["id"]
        if "ce_id" in self.headers:
            return self.headers["ce_id"]
        raise AssertionError(f"no id among the headers {sorted(self.headers)}")

    def attribute(self, name):
        """Of binary mode; None if it isn't there."""
        return self.headers.get("ce_" + name)

    @property
    def place(self):
        return f"{self.topic}[{self.partition}]@{self.offset}"

    def __repr__(self):
        return f"{self.place} key {self.key} {self.headers} {self.value}"


class Reader:
    """Reads a topic from its beginning, in steps; belongs to no group, so that nothing is shared or committed."""

    def __init__(self, bootstrap, topic, **keys):
        self.topic = topic
        self.consumer = ck.Consumer({
            "bootstrap.servers": bootstrap, "group.id": "-", "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20, "reconnect.backoff.max.ms": 200,
            "log_level": 0, **{name.replace("_", "."): value for name, value in keys.items()}})
        self.next = {}      # partition -> the offset that comes next

    def take(self, seconds=10):
        """What is there now and was not taken before, in the order of partition, then offset."""
        ends = self._ends(seconds)
        self.consumer.assign([ck.TopicPartition(self.topic, p, self.next[p]) for p in ends if self.next[p] < ends[p]])
        records = []

        def all_read():
            for message in self.consumer.consume(10000, 0.05):
                if message.error():
                    raise AssertionError(f"{self.topic}: {message.error()}")
                records.append(Record(message))
                self.next[message.partition()] = message.offset() + 1
            return all(self.next[p] >= end for p, end in ends.items())

        wait_until(all_read, seconds, f"topic {self.topic} read up to {ends}", every=0)
        self.consumer.unassign()
        records.sort(key=lambda r: (r.partition, r.offset))
        return records

    def _ends(self, seconds):
        """partition -> where it ends now. A topic made again under its name begins anew."""
        ends = {}
        for p in self.consumer.list_topics(self.topic, seconds).topics[self.topic].partitions:
            low, ends[p] = self._watermarks(p, seconds)
            if not low <= self.next.get(p, low) <= ends[p]:
                self.next[p] = low
            self.next.setdefault(p, low)
        return ends

    def _watermarks(self, partition, seconds):
        """A broker knows of its leadership a little later than the metadata say so."""
        last = None

        def answered():
            nonlocal last
            try:
                return self.consumer.get_watermark_offsets(ck.TopicPartition(self.topic, partition), seconds)
            except ck.KafkaException as e:
                last = e

        try:
            return wait_until(answered, seconds, every=0.05)
        except AssertionError:
            raise last from None

    def close(self):
        self.consumer.close()


class Topics:
    """What an administrator does to topics. Each call returns when a broker says that it is done; another
    node of a cluster may hear of it a moment later."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.begin()

    def begin(self):
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, name, partitions=1, replicas=1, config=None):
        futures = self.admin.create_topics([NewTopic(name, partitions, replicas, config=config or {})],
                                           request_timeout=20, operation_timeout=20)
        futures[name].result()
        wait_until(lambda: len(self.leaders(name)) == partitions, 20, f"leaders of topic {name}")
        return name

    def delete(self, name):
        self.admin.delete_topics([name], request_timeout=20, operation_timeout=20)[name].result()
        wait_until(lambda: name not in self.names(), 20, f"topic {name} gone")
        # librdkafka 2.4.0 to 2.8.0 read freed memory once they have heard of two topics of one name, one after the
        # other (its issues 4778 and 4964), and Python dies of it: who saw this one sees no other.
        self.begin()

    def add_partitions(self, name, total):
        self.admin.create_partitions([NewPartitions(name, total)], request_timeout=20)[name].result()
        wait_until(lambda: len(self.leaders(name)) == total, 20, f"leaders of topic {name}")

    def alter(self, name, config):
        """Changes those; the others that the topic has stay (the call itself replaces them all)."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        now = self.config(name)
        for key, value in now.items():
            resource.set_config(key, value)
        for key, value in config.items():
            resource.set_config(key, str(value))
        for future in self.admin.alter_configs([resource], request_timeout=20).values():
            future.result()
        wait_until(lambda: {**now, **{k: str(v) for k, v in config.items()}} == self.config(name), 10,
                   f"{config} at topic {name}")

    def config(self, name):
        """What was set at the topic itself."""
        dynamic_topic_config = 1
        (future,) = self.admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)],
                                                request_timeout=20).values()
        return {e.name: e.value for e in future.result().values() if e.source == dynamic_topic_config}

    def names(self):
        return set(self.admin.list_topics(timeout=20).topics)

    def _partitions(self, name):
        return self.admin.list_topics(name, timeout=20).topics[name].partitions

    def leaders(self, name):
        """partition -> node, of those partitions that have a leader."""
        return {n: p.leader for n, p in self._partitions(name).items() if p.leader >= 0}

    def in_sync(self, name, partition=0):
        """The nodes that have all of it; none while the partition isn't known."""
        partitions = self._partitions(name)
        return partitions[partition].isrs if partition in partitions else []


def dotted(config):
    """Keywords with _ for . (max_message_bytes=…)."""
    return {name.replace("_", "."): str(value) for name, value in config.items()}


class Kafka(Server):
    script = "kafka"

    def __init__(self, directory):
        super().__init__(directory)
        self._topics = None

    @property
    def topics(self):
        if self._topics is None:
            self._topics = Topics(self.kafka_bootstrap)
        return self._topics

    def create_topic(self, name, partitions=1, replicas=1, **config):
        return self.topics.create(name, partitions, replicas, dotted(config))

    def delete_topic(self, name):
        self.topics.delete(name)

    def alter_topic(self, name, **config):
        self.topics.alter(name, dotted(config))

    def reader(self, topic, **keys):
        return Reader(self.kafka_bootstrap, topic, **keys)

    def consume(self, topic, seconds=10):
        """All that is in the topic now, in the order of partition, then offset."""
        reader = self.reader(topic)
        try:
            return reader.take(seconds)
        finally:
            reader.close()

    def receive(self, topic, count, seconds=15, look=lambda: None):
        """Everything in the topic as soon as it is at least `count` records."""
        reader, records = self.reader(topic), []

        def enough():
            look()
            records.extend(reader.take(seconds))
            return len(records) >= count

        try:
            wait_until(enough, seconds, "all of them")
        except AssertionError as e:
            raise AssertionError(f"topic {topic}: {len(records)} of {count} records came, "
                                 f"the last {[r.id for r in records[-3:]]}: {e}") from None
        finally:
            reader.close()
        records.sort(key=lambda r: (r.partition, r.offset))
        return records

    def count(self, topic):
        reader = self.reader(topic)
        try:
            return sum(end - reader.next[p] for p, end in reader._ends(10).items())
        finally:
            reader.close()

    def proxy(self, node=1):
        """On the way to that node, for clients that begin at its port. The metadata that they get through it sends
        them to the proxies of all nodes: a cluster needs one for each."""
        proxied, told = (ports.split(",")[node - 1] for ports in (self.kafka_proxied_port, self.kafka_proxy_port))
        return Proxy("127.0.0.1", proxied, told)

    # All nodes, or the one of that number.
    def kill(self, *node):
        self.call("kill", *map(str, node))

    def stop(self, *node):
        self.call("stop", *map(str, node))

    def restart(self, *node):
        self.call("restart", *map(str, node))

    def start_node(self, node):
        self.call("start", str(node))

    def freeze(self, *node):
        self.call("freeze", *map(str, node))

    def thaw(self, *node):
        self.call("thaw", *map(str, node))

    def acl(self, *arguments):
        return self.call("acl", *arguments)


def main():
    bootstrap, verb, name, *rest = sys.argv[1:]
    topics = Topics(bootstrap)
    if verb == "create":
        numbers = [int(n) for n in rest if "=" not in n]
        topics.create(name, *numbers, config=dict(pair.split("=", 1) for pair in rest if "=" in pair))
    elif verb == "delete":
        topics.delete(name)
    else:
        sys.exit(f"{verb}: allowed are create, delete")


if __name__ == "__main__":
    main()
