"""What a row looks like when it arrives, field by field, to a consumer that others wrote."""

import base64
import json
import os
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, main, wait_until

EVERYTHING = dict(
    id="4711-ä", source="/shop/orders", type="com.acme.order.placed", subject="Straße 😀/1",
    time="2026-08-18 12:00:00.250+02", datacontenttype="application/json; charset=utf-8",
    dataschema="https://schema.acme.com/order/1", streamid="order-17", streamversion=3,
    data='{"n": 1, "price": 1.10, "name": "Müller"}', extensions='{"tenant": "eu", "attempt": 5, "vip": true, "none": null}')

# The same event's attributes in their canonical text, as every header prefix and the JSON form carry them.
ATTRIBUTES = {
    "specversion": "1.0", "id": "4711-ä", "source": "/shop/orders", "type": "com.acme.order.placed",
    "subject": "Straße 😀/1", "time": "2026-08-18T10:00:00.25Z", "dataschema": "https://schema.acme.com/order/1",
    "streamid": "order-17", "streamversion": "3", "position": "1", "tenant": "eu", "attempt": "5", "vip": "true"}


class Binary(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def arrived(self, sink=None, reading=None, **row):
        """One row through a daemon of its own."""
        self.db.insert(**row)
        self.daemon_for(sink=sink, source=reading)
        return self.receive(1)[0]

    def test_every_field_of_a_row_arrives(self):
        message = self.arrived(**EVERYTHING)
        self.assertEqual(message.headers, {f"cloudEvents_{name}": value for name, value in ATTRIBUTES.items()})
        self.assertEqual(message.body, '{"n": 1, "name": "Müller", "price": 1.10}'.encode())
        self.assertEqual(message.properties.content_type, "application/json; charset=utf-8")
        self.assertEqual(message.properties.message_id, "4711-ä")
        self.assertEqual(message.properties.delivery_mode, 2)
        self.assertIsNone(message.properties.content_encoding)
        self.assertIsNone(message.properties.user_id)
        self.assertEqual((message.exchange, message.routing_key), (self.exchange, "com.acme.order.placed"))

    def test_prefix_with_a_colon(self):
        message = self.arrived(sink={"header_prefix": "cloudEvents:"}, **EVERYTHING)
        self.assertEqual(message.headers, {f"cloudEvents:{name}": value for name, value in ATTRIBUTES.items()})

    def test_prefix_ce(self):
        message = self.arrived(sink={"header_prefix": "ce-"}, **EVERYTHING)
        self.assertEqual(message.headers, {f"ce-{name}": value for name, value in ATTRIBUTES.items()})

    def test_structured(self):
        message = self.arrived(sink={"mode": "structured"}, **EVERYTHING)
        self.assertEqual(message.headers, {})
        self.assertEqual(message.properties.content_type, "application/cloudevents+json")
        self.assertEqual(message.properties.message_id, "4711-ä")
        self.assertEqual(message.properties.delivery_mode, 2)
        event = json.loads(message.body)
        typed = {**ATTRIBUTES, "attempt": 5, "vip": True}
        typed["datacontenttype"] = "application/json; charset=utf-8"
        data = event.pop("data")
        self.assertEqual({n: str(v) for n, v in event.items()}, {n: str(v) for n, v in typed.items()})
        self.assertEqual((event["attempt"], event["vip"]), (5, True))
        self.assertEqual(data, {"n": 1, "name": "Müller", "price": 1.10})
        # Not only equal when parsed: the very bytes.
        self.assertIn('"data":{"n": 1, "name": "Müller", "price": 1.10}'.encode(), message.body)

    def test_a_row_with_nothing_optional_has_no_header_for_it(self):
        message = self.arrived(id="1", type="a.b")
        self.assertEqual(message.headers, {
            "cloudEvents_specversion": "1.0", "cloudEvents_id": "1", "cloudEvents_source": "/shop/orders",
            "cloudEvents_type": "a.b", "cloudEvents_position": "1"})
        self.assertEqual(message.body, b"")
        self.assertIsNone(message.properties.content_type)

    def test_times_are_rfc_3339_in_utc(self):
        times = {"2026-08-18 12:00:00+02": "2026-08-18T10:00:00Z", "2026-01-02 03:04:05.678901+00": "2026-01-02T03:04:05.678901Z",
                 "0001-01-01 00:00:00+00": "0001-01-01T00:00:00Z", "9999-12-31 23:59:59.999999+00": "9999-12-31T23:59:59.999999Z",
                 "1969-12-31 23:59:59.5+00": "1969-12-31T23:59:59.5Z"}
        for n, time in enumerate(times):
            self.db.insert(id=str(n), type="a.b", streamid="s", time=time)
        self.daemon_for()
        self.assertEqual([m.headers["cloudEvents_time"] for m in self.receive(len(times))], list(times.values()))

    def test_a_position_beyond_32_bits_stays_exact(self):
        self.db.sql("SELECT setval('event_position_seq', 9007199254740993)")
        message = self.arrived(id="1", type="a.b")
        self.assertEqual(message.headers["cloudEvents_position"], "9007199254740994")

    def test_an_id_over_255_bytes_is_no_message_id_but_a_header(self):
        message = self.arrived(id="i" * 256, type="a.b")
        self.assertIsNone(message.properties.message_id)
        self.assertEqual(message.headers["cloudEvents_id"], "i" * 256)

    def test_the_idempotency_key_is_the_same_on_every_send(self):
        key = {"idempotency_key": {"header": "idempotency-key", "value": "{streamid}/{id}"}}
        message = self.arrived(sink=key, id="7", type="a.b", streamid="s1")
        self.assertEqual(message.headers["idempotency-key"], "s1/7")
        # Starting over sends it again.
        self.db.sql("DELETE FROM penstock.checkpoint")
        self.daemon(self.configuration({"orders": self.forwarder(sink=key)}), name="again")
        self.assertEqual(self.receive(1)[0].headers["idempotency-key"], "s1/7")

    def test_each_message_carries_a_tag_of_its_own(self):
        self.db.insert_many(50)
        self.daemon_for()
        self.assertEqual(len({m.tag for m in self.receive(50)}), 50)

    def test_what_may_be_left_out_is_left_out(self):
        message = self.arrived(reading={"emit": ["streamid"]}, id="1", type="a.b", streamid="s", streamversion=4)
        self.assertIn("cloudEvents_streamid", message.headers)
        self.assertNotIn("cloudEvents_streamversion", message.headers)
        self.assertNotIn("cloudEvents_position", message.headers)

    def test_application_headers_stand_beside_ours(self):
        self.db.insert(id="1", type="a.b", subject="x")
        self.daemon_for(rules=[{"to": {"exchange": self.exchange, "routing_key": "k",
                                       "headers": {"tenant": "{subject}", "fixed": "yes"}}}])
        message = self.receive(1)[0]
        self.assertEqual((message.headers["tenant"], message.headers["fixed"]), ("x", "yes"))


class Payloads(Case):
    """data of each column type; both forms keep what the column holds."""

    # column type -> [(value in SQL, datacontenttype, binary body, content type sent, member of the JSON form)]
    CASES = {
        "json": [
            ("'{ \"a\" : 1, \"a\" : 1.10, \"b\": 12345678901234567890 }'", None,
             b'{ "a" : 1, "a" : 1.10, "b": 12345678901234567890 }', "application/json",
             b'"data":{ "a" : 1, "a" : 1.10, "b": 12345678901234567890 }'),
            ("'null'", None, b"null", "application/json", b'"data":null'),
            ("NULL", None, b"", None, None),
            ("NULL", "application/json", b"", "application/json", None),
        ],
        "jsonb": [
            ("'{\"n\":1e3,\"t\":\"é\"}'", None, '{"n": 1000, "t": "é"}'.encode(), "application/json",
             '"data":{"n": 1000, "t": "é"}'.encode()),
            ("'null'", "application/vnd.acme+json", b"null", "application/vnd.acme+json", b'"data":null'),
            ("'\"text\"'", None, b'"text"', "application/json", b'"data":"text"'),
            ("NULL", None, b"", None, None),
        ],
        "text": [
            ("'Grüße \"x\"'", "text/plain", 'Grüße "x"'.encode(), "text/plain", '"data":"Grüße \\"x\\""'.encode()),
            ("'{\"a\":1}'", "application/json", b'{"a":1}', "application/json", b'"data":{"a":1}'),
            ("'<a/>'", "application/xml", b"<a/>", "application/xml", b'"data":"<a/>"'),
            ("''", "text/plain", b"", "text/plain", b'"data":""'),
            ("NULL", "text/plain", b"", "text/plain", None),
        ],
        "bytea": [
            (r"'\x00ff10'", "application/octet-stream", b"\x00\xff\x10", "application/octet-stream",
             b'"data_base64":"AP8Q"'),
            (r"'\x7b7d'", "application/json", b"{}", "application/json", b'"data_base64":"e30="'),
            (r"'\x01'", None, b"\x01", None, b'"data_base64":"AQ=="'),
            ("''", None, b"", None, b'"data_base64":""'),
            ("NULL", None, b"", None, None),
        ],
    }

    def test_every_payload_type_keeps_its_bytes(self):
        forwarders = {}
        for kind, cases in self.CASES.items():
            self.db.create_event_table(kind + "_event", data=kind)
            for value, content_type, *_ in cases:
                self.db.sql(f"INSERT INTO {kind}_event (type, streamid, data, datacontenttype) "
                            f"VALUES ('a.b', 's', {value}, %s)", content_type)
            for mode in ("binary", "structured"):
                queue = self.bound_queue(f"{kind}-{mode}")
                forwarders[f"{kind}-{mode}"] = self.forwarder(
                    source={"table": kind + "_event"}, sink={"mode": mode},
                    rules=[{"to": {"exchange": queue, "routing_key": "k"}}])
        self.daemon(self.configuration(forwarders))
        for kind, cases in self.CASES.items():
            binary = self.receive(len(cases), queue=f"{kind}-binary-{Case.stories}")
            structured = self.receive(len(cases), queue=f"{kind}-structured-{Case.stories}")
            for (value, given, body, sent, member), b, s in zip(cases, binary, structured):
                with self.subTest(kind=kind, value=value, datacontenttype=given):
                    self.assertEqual(b.body, body)
                    self.assertEqual(b.properties.content_type, sent)
                    event = json.loads(s.body)
                    self.assertEqual(event.get("datacontenttype"), sent)
                    if member is None:
                        self.assertFalse({"data", "data_base64"} & event.keys())
                    else:
                        self.assertIn(member, s.body)

    def test_empty_data_is_marked_where_asked_for(self):
        self.db.create_event_table(data="text")
        for n, data in enumerate(["", None, "x"]):
            self.db.insert(id=str(n), type="a.b", streamid="s", data=data, datacontenttype="text/plain")
        self.daemon_for(sink={"mark_empty_data": True})
        marks = [m.headers.get("cloudEvents_data_present_empty") for m in self.receive(3)]
        self.assertEqual([str(mark).lower() for mark in marks], ["true", "none", "none"])

    def test_a_payload_of_a_megabyte_arrives_whole(self):
        self.db.create_event_table(data="bytea")
        data = os.urandom(1 << 20)
        self.db.insert(id="1", type="a.b", data=data)
        self.daemon_for()
        self.assertEqual(self.receive(1)[0].body, data)


class Extensions(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def test_extensions_come_from_mapped_columns(self):
        self.db.sql("ALTER TABLE event ADD tenant_name text, ADD attempt int, ADD vip bool, ADD due timestamptz, ADD digest bytea")
        self.db.insert(id="1", type="a.b", streamid="s", tenant_name="eu", attempt=-5, vip=False,
                       due="2026-01-01 00:00:00+00", digest=b"\xff\xfe")
        self.db.insert(id="2", type="a.b", streamid="s")
        self.daemon_for(source={"columns": {"extensions": {
            "tenant": "tenant_name", "attempt": "attempt", "vip": "vip", "due": "due", "digest": "digest"}}})
        first, second = self.receive(2)
        self.assertEqual({n: first.headers[f"cloudEvents_{n}"] for n in ("tenant", "attempt", "vip", "due", "digest")},
                         {"tenant": "eu", "attempt": "-5", "vip": "false", "due": "2026-01-01T00:00:00Z",
                          "digest": base64.b64encode(b"\xff\xfe").decode()})
        self.assertFalse({"cloudEvents_tenant", "cloudEvents_attempt", "cloudEvents_due"} & second.headers.keys())

    def test_a_uuid_is_an_id(self):
        self.db.sql("ALTER TABLE event ALTER id DROP DEFAULT, ALTER id TYPE uuid USING id::uuid")
        id = str(uuid.uuid4())
        self.db.insert(id=id, type="a.b")
        self.daemon_for()
        self.assertEqual(self.receive_ids(1), [id])


class Refused(Case):
    """A row that can't become an event is held by name and position; other keys go on."""

    DEFECTS = {
        "an extension's name with upper case": dict(extensions={"Trace_Id": "1"}),
        "an extension named like an attribute": dict(extensions={"id": "1"}),
        "an extension that is an object": dict(extensions={"nested": {"a": 1}}),
        "extensions that are no object": dict(extensions=[1]),
        "an infinite time": dict(time="infinity"),
        "a time before the year 1": dict(time="0044-03-15 12:00:00+00 BC"),
        "a year of five digits": dict(time="10000-01-01 00:00:00+00"),
        "an empty type": dict(type=""),
        "no type": dict(type=None),
        "an empty source": dict(source=""),
        "a space in the source": dict(source="/a b"),
        "an empty id": dict(id=""),
        "a control character in the subject": dict(subject="a\nb"),
        "a JSON payload that is called XML": dict(data={"a": 1}, datacontenttype="application/xml"),
    }

    def test_each_defect_holds_its_key_and_no_other(self):
        forwarders = {}
        for n, row in enumerate(self.DEFECTS.values()):
            self.db.create_event_table(f"event{n}")
            self.db.sql(f"ALTER TABLE event{n} ALTER type DROP NOT NULL")
            self.db.insert(f"event{n}", **{"id": "bad", "type": "a.b", "streamid": "bad", **row})
            self.db.insert(f"event{n}", id="behind", type="a.b", streamid="bad")
            self.db.insert(f"event{n}", id=f"good{n}", type="a.b", streamid="good")
            forwarders[f"f{n}"] = self.forwarder(source={"table": f"event{n}"})
        d = self.daemon(self.configuration(forwarders))
        self.assertEqual(sorted(self.receive_ids(len(self.DEFECTS))), sorted(f"good{n}" for n in range(len(self.DEFECTS))))
        for n, what in enumerate(self.DEFECTS):
            with self.subTest(what):
                f = d.wait_state("held", forwarder=f"f{n}")
                self.assertEqual((f["counts"]["rejected"], f["culprit"]["position"]), (1, 1))
                self.assertIn("position 1", f["reason"])
                self.assertEqual(self.db.checkpoint_position(f"f{n}") or 0, 0)
                d.wait_log(rf"f{n}: event at position 1\b")

    def test_text_without_a_content_type_is_never_guessed(self):
        self.db.create_event_table(data="text")
        self.db.insert(id="1", type="a.b", data='{"a": 1}')
        d = self.daemon_for()
        d.wait_state("held")
        self.assert_queue_empty()

    def test_a_row_larger_than_the_limit_is_held_by_name_and_others_go_on(self):
        self.db.create_event_table()
        self.db.insert(id="big", type="a.b", streamid="a", data={"x": "y" * 300000})
        self.db.insert(id="small", type="a.b", streamid="b", data={"x": "y"})
        d = self.daemon_for(sink={"max_message_bytes": "100KiB"})
        self.assertEqual(self.receive_ids(1), ["small"])
        f = d.wait_state("held")
        self.assertEqual(f["culprit"]["position"], 1)
        wait_until(lambda: "big" in json.dumps(d.status()), what="the event's id in the status")


if __name__ == "__main__":
    main()
