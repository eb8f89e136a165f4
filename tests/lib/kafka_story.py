"""kafka_story: stories with a topic of their own, and the readers of Kafka that others wrote (tests/lib/readers)."""

import base64
import functools
import json
import os
import subprocess
import sys

from kafka_broker import Kafka
from penstock import LIB, Story


def reader(name):
    """Where that reader is; brought here the first time. It fails without a network then."""
    done = subprocess.run([os.path.join(LIB, "readers", "fetch"), name], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout.strip()


@functools.cache
def python_sdk():
    """(the Kafka binding, its JSON format) of the CloudEvents SDK for Python."""
    sys.path.append(reader("python"))
    from cloudevents.core.bindings import kafka
    from cloudevents.core.formats.json import JSONFormat
    return kafka, JSONFormat()


def python_event(record):
    """A record as that SDK reads it: attributes and data."""
    kafka, json_format = python_sdk()
    event = kafka.from_kafka(kafka.KafkaMessage(dict(record.header_list), record.key, record.value), json_format)
    return event.get_attributes(), event.get_data()


def java(verb, bootstrap, topic, *arguments, input=None):
    """The lines that tests/lib/readers/Reader.java prints."""
    place = reader("java")
    done = subprocess.run(["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{place}:{place}/*", "Reader", verb,
                           bootstrap, topic, *map(str, arguments)], capture_output=True, text=True, timeout=120, input=input)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout.splitlines()


def java_events(bootstrap, topic, count):
    """`count` records as the SDK for Java reads them: partition, key, attributes, data (bytes or None)."""
    events = [json.loads(line) for line in java("read", bootstrap, topic, count)]
    for e in events:
        e["data"] = None if e["data"] is None else base64.b64decode(e["data"])
    return events


def java_partitions(bootstrap, topic, keys):
    """Where Java's own producer puts those keys (bytes)."""
    lines = java("partitions", bootstrap, topic, input="".join(base64.b64encode(k).decode() + "\n" for k in keys))
    return [int(line) for line in lines]


class KafkaStory(Story):
    """A story with a topic of its own on Kafka."""

    broker = "kafka"        # its connection's name in the configuration
    partitions, replicas, topic_config = 3, 1, {}
    server_options = ()     # of servers of its own

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kafka = cls.server(Kafka, *(cls.server_options if cls.own_servers else ["--tls", "--sasl"]))

    def setUp(self):
        super().setUp()
        self.topic = self.new_topic("", self.partitions)

    def new_topic(self, name, partitions=1, **config):
        return self.kafka.create_topic(self.topic_name(name), partitions, self.replicas, **{**self.topic_config, **config})

    def topic_name(self, name):
        """That no other story has."""
        return f"t{self.stories}-{self.name[:80]}{name and '-'}{name}"

    def broker_connection(self, port=None):
        return {"kafka": {"bootstrap.servers": self.kafka.kafka_bootstrap if port is None else f"127.0.0.1:{port}"}}

    def destination(self):
        return {"topic": self.topic}

    def receive(self, count, seconds=15, topic=None):
        """Everything in the topic as soon as it is `count` records; without waiting for a daemon that has ended."""
        try:
            return self.kafka.receive(topic or self.topic, count, seconds, self.look_at_daemons)
        except AssertionError as e:
            raise AssertionError(f"{e}{self.daemon_logs()}") from None

    def receive_ids(self, count, seconds=15, topic=None):
        return [r.id for r in self.receive(count, seconds, topic)]

    def assert_nothing_twice(self, records):
        ids = [r.id for r in records]
        self.assertEqual(len(ids), len(set(ids)), f"{len(ids) - len(set(ids))} of {len(ids)} came twice")

    def assert_ordered(self, records):
        """First deliveries of each stream in the order of its versions (G6)."""
        seen, versions = set(), {}
        for r in records:
            if r.id in seen:
                continue
            seen.add(r.id)
            stream, version = r.attribute("streamid"), int(r.attribute("streamversion"))
            self.assertGreaterEqual(version, versions.get(stream, -1), f"stream {stream} at {r.place}")
            versions[stream] = version
