"""What a row looks like when it arrives on Kafka, to consumers that others wrote."""

import datetime
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import test_events
from kafka_story import KafkaStory, java_events, java_partitions, python_event
from penstock import main

EVERYTHING, ATTRIBUTES = test_events.EVERYTHING, test_events.ATTRIBUTES
PAYLOAD = '{"n": 1, "name": "Müller", "price": 1.10}'.encode()


class Kafka(KafkaStory):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()


class Messages(Kafka):
    def arrived(self, sink=None, to=None, **row):
        """One row through a daemon of its own."""
        self.db.insert(**row)
        self.daemon_for(sink=sink, rules=[{"to": {**self.destination(), **(to or {})}}])
        return self.receive(1)[0]

    def test_every_field_of_a_row_arrives(self):
        record = self.arrived(**EVERYTHING)
        self.assertEqual(record.headers, {"content-type": "application/json; charset=utf-8",
                                          **{f"ce_{name}": value for name, value in ATTRIBUTES.items()}})
        self.assertEqual(len(record.header_list), len(record.headers))      # each once
        self.assertEqual(record.value, PAYLOAD)
        self.assertEqual(record.key, b"order-17")

    def test_structured(self):
        record = self.arrived(sink={"mode": "structured"}, **EVERYTHING)
        self.assertEqual(record.header_list, [("content-type", b"application/cloudevents+json")])
        self.assertEqual(record.key, b"order-17")
        event = json.loads(record.value)
        self.assertEqual((event["attempt"], event["vip"], event.pop("datacontenttype")),
                         (5, True, "application/json; charset=utf-8"))
        self.assertIn(b'"data":' + PAYLOAD, record.value)
        del event["data"]
        self.assertEqual({n: str(v) for n, v in event.items()},
                         {n: str(v) for n, v in {**ATTRIBUTES, "attempt": 5, "vip": True}.items()})

    def test_a_row_with_nothing_optional_has_no_header_for_it_no_key_and_no_value(self):
        record = self.arrived(id="1", type="a.b")
        self.assertEqual(record.headers, {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/shop/orders",
                                          "ce_type": "a.b", "ce_position": "1"})
        self.assertIsNone(record.value)
        self.assertIsNone(record.key)

    def test_every_payload_type_keeps_its_bytes(self):
        forwarders, topics = {}, {}
        for kind, cases in test_events.Payloads.CASES.items():
            self.db.create_event_table(kind + "_event", data=kind)
            for value, content_type, *_ in cases:
                self.db.sql(f"INSERT INTO {kind}_event (type, streamid, data, datacontenttype) "
                            f"VALUES ('a.b', 's', {value}, %s)", content_type)
            for mode in ("binary", "structured"):
                topics[kind, mode] = self.new_topic(f"{kind}-{mode}")
                forwarders[f"{kind}-{mode}"] = self.forwarder(source={"table": kind + "_event"}, sink={"mode": mode},
                                                              rules=[{"to": {"topic": topics[kind, mode]}}])
        self.daemon(self.configuration(forwarders))
        for kind, cases in test_events.Payloads.CASES.items():
            binary = self.receive(len(cases), topic=topics[kind, "binary"])
            structured = self.receive(len(cases), topic=topics[kind, "structured"])
            for (value, given, body, sent, member), b, s in zip(cases, binary, structured, strict=True):
                with self.subTest(kind=kind, value=value, datacontenttype=given):
                    # No data is a null value, empty data an empty one: RabbitMQ can't tell, Kafka can.
                    self.assertEqual(b.value, None if value == "NULL" else body)
                    self.assertEqual(b.headers.get("content-type"), sent)
                    event = json.loads(s.value)
                    self.assertEqual(event.get("datacontenttype"), sent)
                    if member is None:
                        self.assertFalse({"data", "data_base64"} & event.keys())
                    else:
                        self.assertIn(member, s.value)

    def test_the_key_is_partitionkey_else_streamid_else_none(self):
        self.db.insert(id="both", type="a.b", streamid="s1", extensions={"partitionkey": "pk-ä"})
        self.db.insert(id="stream", type="a.b", streamid="s2")
        self.db.insert(id="neither", type="a.b")
        self.db.insert(id="partitionkey", type="a.b", extensions={"partitionkey": "pk"})
        self.daemon_for()
        records = {r.id: r for r in self.receive(4)}
        self.assertEqual({id: r.key for id, r in records.items()},
                         {"both": "pk-ä".encode(), "stream": b"s2", "neither": None, "partitionkey": b"pk"})
        # It is taken from the event, not out of it; and a key is no attribute.
        self.assertEqual({id: r.attribute("partitionkey") for id, r in records.items()},
                         {"both": "pk-ä", "stream": None, "neither": None, "partitionkey": "pk"})

    def test_a_key_by_template(self):
        record = self.arrived(to={"key": "{type}/{subject}"}, id="1", type="a.b", subject="x é", streamid="s",
                              extensions={"partitionkey": "unused"})
        self.assertEqual(record.key, "a.b/x é".encode())
        self.assertEqual(record.attribute("partitionkey"), "unused")

    def test_every_key_is_on_the_partition_where_java_puts_it(self):
        keys = [f"stream-{i}" for i in range(200)] + ["ä", "😀", "k" * 1000, "a", "0", " ", "\u00ff", "日本語"]
        theirs = self.new_topic("java", 7)
        self.topic = self.new_topic("ours", 7)
        for key in keys:
            self.db.insert(type="a.b", streamid=key)
        self.daemon_for()
        ours = {r.key.decode(): r.partition for r in self.receive(len(keys))}
        java = dict(zip(keys, java_partitions(self.kafka.kafka_bootstrap, theirs, [k.encode() for k in keys]), strict=True))
        self.assertEqual(ours, java)
        self.assertEqual(set(ours.values()), set(range(7)))

    def test_a_fixed_partition_takes_every_key(self):
        self.db.insert_many(50, streams=10)
        self.daemon_for(rules=[{"to": {"topic": self.topic, "partition": 2}}])
        records = self.receive(50)
        self.assertEqual({r.partition for r in records}, {2})
        self.assertEqual(sorted(int(r.id) for r in records), list(range(1, 51)))
        self.assertEqual({r.key for r in records}, {f"s{i}".encode() for i in range(10)})

    def test_application_headers_stand_beside_ours(self):
        record = self.arrived(to={"headers": {"tenant": "{subject}", "fixed": "yes"}}, id="1", type="a.b", subject="é")
        self.assertEqual((record.headers["tenant"], record.headers["fixed"]), ("é", "yes"))

    def test_the_idempotency_key_is_a_header(self):
        record = self.arrived(sink={"idempotency_key": {"header": "idempotency-key", "value": "{streamid}/{id}"}},
                              id="7", type="a.b", streamid="s1")
        self.assertEqual(record.headers["idempotency-key"], "s1/7")

    def test_a_payload_of_nearly_a_megabyte_arrives_whole(self):
        self.db.sql("DROP TABLE event")
        self.db.create_event_table(data="bytea")
        data = os.urandom(1000000)
        record = self.arrived(id="1", type="a.b", data=data)
        self.assertEqual(record.value, data)

    def test_compressed_batches_are_read_by_others(self):
        self.db.insert_many(500)
        c = self.configuration()
        c["connections"]["kafka"]["kafka"]["compression.type"] = "lz4"
        self.daemon(c)
        records = self.receive(500)
        self.assert_nothing_twice(records)
        self.assert_ordered(records)


class Readers(Kafka):
    """The CloudEvents SDKs of others make the same event of it, in both modes."""

    ROWS = [
        EVERYTHING,
        dict(id="minimal", type="a.b", time="2026-01-01 00:00:00+00", data={"x": [1, 2.5, None, "é"]}),
        dict(id="keyed", type="a.b", streamid="s", time="2026-01-01 00:00:00+00", data={},
             extensions={"partitionkey": "s", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}),
        dict(id="subject", type="a.b", subject="Euro € 😀 %20", time="2026-01-01 00:00:00.123456+00", data=[True]),
    ]

    def setUp(self):
        super().setUp()
        self.modes = {mode: self.new_topic(mode) for mode in ("binary", "structured")}
        for row in self.ROWS:
            self.db.insert(**row)
        self.daemon(self.configuration({mode: self.forwarder(sink={"mode": mode}, rules=[{"to": {"topic": topic}}])
                                        for mode, topic in self.modes.items()}))
        self.records = {mode: self.receive(len(self.ROWS), topic=topic) for mode, topic in self.modes.items()}

    @staticmethod
    def comparable(attributes):
        """Times as times, everything else as text: each SDK has classes of its own for them."""
        def of(name, value):
            if name == "time":
                return value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(value)
            return str(value).lower() if isinstance(value, bool) else str(value)
        return {name: of(name, value) for name, value in attributes.items()}

    def attributes_of(self, record):
        """As a reader should see them, from headers that test_every_field_of_a_row_arrives has compared."""
        attributes = {name[3:]: value for name, value in record.headers.items() if name.startswith("ce_")}
        return self.comparable({**attributes, "datacontenttype": record.headers["content-type"]})

    def test_the_sdk_for_python(self):
        for mode, records in self.records.items():
            for record, wanted in zip(records, self.records["binary"], strict=True):
                with self.subTest(mode=mode, id=record.id):
                    attributes, data = python_event(record)
                    expected = self.attributes_of(wanted)
                    if record.key is not None:      # it makes an attribute of the key, whatever was in the event
                        expected["partitionkey"] = record.key.decode()
                    self.assertEqual(self.comparable(attributes), expected)
                    self.assertEqual(data, json.loads(wanted.value))

    def test_the_sdk_for_java(self):
        for mode, topic in self.modes.items():
            events = java_events(self.kafka.kafka_bootstrap, topic, len(self.ROWS))
            for event, wanted in zip(events, self.records["binary"], strict=True):
                with self.subTest(mode=mode, id=wanted.id):
                    self.assertEqual(self.comparable(event["attributes"]), self.attributes_of(wanted))
                    self.assertEqual(event["key"], wanted.key and wanted.key.decode())
                    if mode == "binary":        # byte for byte; of structured JSON it makes numbers of its own
                        self.assertEqual(event["data"], wanted.value)
                    else:
                        self.assertEqual(json.loads(event["data"]), json.loads(wanted.value))

    def test_no_data_is_a_null_value_that_java_s_client_shows_as_none(self):
        topic = self.new_topic("null")
        self.db.sql("CREATE TABLE empty (LIKE event INCLUDING ALL)")
        self.db.insert("empty", id="1", type="a.b", streamid="s")
        self.daemon(self.configuration({"empty": self.forwarder(source={"table": "empty"}, rules=[{"to": {"topic": topic}}])}),
                    name="null")
        self.receive(1, topic=topic)
        (event,) = java_events(self.kafka.kafka_bootstrap, topic, 1)
        self.assertEqual((event["key"], event["attributes"], event["data"]), ("s", None, None))


if __name__ == "__main__":
    main()
