"""Which rule takes an event, where it goes, and what happens when none does."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, main, stays, wait_until


class Rules(Case):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def to(self, key="k", **more):
        return {"exchange": self.exchange, "routing_key": key, **more}

    def keys_by_id(self, count):
        """{id: [routing keys]}"""
        found = {}
        for m in self.receive(count):
            found.setdefault(m.id, []).append(m.routing_key)
        return found

    def test_the_first_rule_that_matches_wins(self):
        for id, type in (("1", "order.placed"), ("2", "order.paid"), ("3", "user.added")):
            self.db.insert(id=id, type=type)
        self.daemon_for(rules=[
            {"name": "paid", "filter": {"exact": {"type": "order.paid"}}, "to": self.to("first")},
            {"name": "orders", "filter": {"prefix": {"type": "order."}}, "to": self.to("second")},
            {"name": "rest", "to": self.to("third")}])
        self.assertEqual(self.keys_by_id(3), {"1": ["second"], "2": ["first"], "3": ["third"]})

    def test_every_filter_dialect(self):
        rows = {"1": dict(type="a.one", subject="x", extensions={"region": "eu"}),
                "2": dict(type="b.two", subject="y", extensions={"region": "us"}),
                "3": dict(type="b.three", subject=None, extensions=None)}
        for id, row in rows.items():
            self.db.insert(id=id, streamid="s", **row)
        matches = {
            "exact": ({"exact": {"type": "a.one"}}, "1"),
            "exact-two": ({"exact": {"type": "b.two", "region": "us"}}, "2"),
            "prefix": ({"prefix": {"type": "b."}}, "23"),
            "suffix": ({"suffix": {"type": "e"}}, "13"),
            "not-absent": ({"not": {"exact": {"subject": "x"}}}, "23"),
            "all": ({"all": [{"prefix": {"type": "b."}}, {"exact": {"region": "us"}}]}, "2"),
            "any": ({"any": [{"exact": {"region": "eu"}}, {"suffix": {"type": "three"}}]}, "13"),
        }
        self.daemon_for(rules=[{"name": name, "filter": filter, "to": self.to(name), "continue": True}
                               for name, (filter, _) in matches.items()] + [{"name": "rest", "to": self.to("rest")}])
        found = self.keys_by_id(sum(len(ids) for _, ids in matches.values()) + 3)
        for id in rows:
            expected = [name for name, (_, ids) in matches.items() if id in ids] + ["rest"]
            self.assertEqual(sorted(found[id]), sorted(expected))

    def test_fan_out_goes_to_every_destination_and_settles_with_the_last(self):
        audit = self.bound_queue("audit", key="never")     # nothing is routed there yet
        self.db.insert(id="1", type="a.b", streamid="s")
        self.db.insert(id="2", type="a.b", streamid="s")
        d = self.daemon_for(rules=[{"to": [self.to("main"), {"exchange": audit, "routing_key": "payment"}]}])
        self.assertEqual(self.receive_ids(1), ["1"])
        d.wait_state("held")
        self.assertEqual(self.db.checkpoint_position() or 0, 0)
        self.rabbitmq.bind(audit, audit, "payment")
        self.assertEqual([m.id for m in self.receive(2, queue=audit)], ["1", "2"])
        self.assertEqual(self.receive_ids(1), ["2"])
        self.wait_saved(2)
        # The destination that had settled was not sent to again.
        self.assert_queue_empty()

    def test_a_skipped_event_goes_nowhere_and_is_counted(self):
        self.db.insert(id="1", type="debug.x")
        self.db.insert(id="2", type="order.placed")
        d = self.daemon_for(rules=[{"name": "noise", "filter": {"prefix": {"type": "debug."}}, "skip": True},
                                   {"name": "rest", "to": self.to()}])
        self.assertEqual(self.receive_ids(1), ["2"])
        self.wait_saved(2)
        self.assertEqual(d.status()["counts"]["skipped"], 1)

    def test_templates_in_exchange_key_and_headers(self):
        self.db.insert(id="1", type="com.acme.order.Placed", subject="A/b", extensions={"tenant": "eu"})
        self.db.insert(id="2", type="com.acme.order.Paid")
        exchange = self.bound_queue("from-eu")
        self.daemon_for(rules=[
            {"filter": {"exact": {"tenant": "eu"}},
             "to": {"exchange": "from-{tenant}-" + str(Case.stories), "routing_key": "order.{type|last|lower}.{subject}",
                    "headers": {"x": "{subject|upper}-{id}", "brace": "{tenant?none}"}}},
            {"to": self.to("{type|first}.{subject?none}", headers={"tenant": "{tenant?none}"})}])
        first = self.receive(1, queue=exchange)[0]
        self.assertEqual(first.routing_key, "order.placed.A/b")
        self.assertEqual((first.headers["x"], first.headers["brace"]), ("A/B-1", "eu"))
        second = self.receive(1)[0]
        self.assertEqual((second.routing_key, second.headers["tenant"]), ("com.none", "none"))

    def test_a_template_without_its_attribute_rejects_the_event_by_name(self):
        self.db.insert(id="1", type="a.b", streamid="a")
        self.db.insert(id="2", type="a.b", streamid="a", subject="x")
        self.db.insert(id="3", type="a.b", streamid="b", subject="x")
        d = self.daemon_for(rules=[{"name": "by-subject", "to": self.to("{subject}")}, {"name": "rest", "to": self.to("rest")}])
        # The next rule is not tried for 1, and 2 stays behind it.
        self.assertEqual([(m.id, m.routing_key) for m in self.receive(1)], [("3", "x")])
        f = d.wait_state("held")
        self.assertEqual((f["culprit"]["position"], f["counts"]["rejected"]), (1, 1))
        self.assertIn("subject", json.dumps(f))

    def test_an_unmatched_event_is_held_with_the_rules_that_were_tried(self):
        self.db.insert(id="1", type="other", streamid="a")
        self.db.insert(id="2", type="order.placed", streamid="a")
        self.db.insert(id="3", type="order.placed", streamid="b")
        d = self.daemon_for(rules=[{"name": "only-orders", "filter": {"prefix": {"type": "order."}}, "to": self.to()}])
        self.assertEqual(self.receive_ids(1), ["3"])
        f = d.wait_state("held")
        self.assertEqual((f["culprit"]["position"], f["counts"]["unmatched"]), (1, 1))
        stays(lambda: self.rabbitmq.count(self.queue) == 0, 0.3, "the events behind it stay")
        self.assertEqual(self.db.checkpoint_position() or 0, 0)

    def test_one_held_event_that_stops_all_reading_says_so(self):
        self.db.insert(id="0", type="other", streamid="a")
        self.db.insert_many(300)
        d = self.daemon_for(window={"events": 100, "unsaved": 100},
                            rules=[{"name": "only-orders", "filter": {"prefix": {"type": "order."}}, "to": self.to()}])
        wait_until(lambda: "nothing more is read: window.unsaved" in d.wait_state("held")["reason"],
                   what=lambda: d.wait_state("held")["reason"])
        d.wait_log("nothing more is read: window.unsaved", 20)

    def test_every_event_that_is_held_is_named_in_the_log(self):
        for i in range(40):
            self.db.insert(id=f"bad-{i}", type="other", streamid=f"s{i}")
        d = self.daemon_for(rules=[{"name": "only-orders", "filter": {"prefix": {"type": "order."}}, "to": self.to()}])
        for i in range(40):
            d.wait_log(f"id bad-{i}\\)")
        wait_until(lambda: d.wait_state("held")["window"]["held"] == 40, what=lambda: d.wait_state("held")["window"])

    def test_an_unmatched_event_is_skipped_where_the_configuration_says_so(self):
        self.db.insert(id="1", type="other", streamid="a")
        self.db.insert(id="2", type="order.placed", streamid="a")
        d = self.daemon_for(on_unmatched="skip",
                            rules=[{"name": "only-orders", "filter": {"prefix": {"type": "order."}}, "to": self.to()}])
        self.assertEqual(self.receive_ids(1), ["2"])
        self.wait_saved(2)
        wait_until(lambda: d.status()["counts"]["unmatched"] == 1)

    def test_a_rule_that_was_mended_lets_the_held_event_go(self):
        self.db.insert(id="1", type="other", streamid="a")
        self.db.insert(id="2", type="order.placed", streamid="a")
        orders = {"name": "orders", "filter": {"prefix": {"type": "order."}}, "to": self.to()}
        d = self.daemon_for(rules=[orders])
        d.wait_state("held")
        self.assertEqual(d.stop(), 0)
        d.write(self.configuration({"orders": self.forwarder(rules=[orders, {"name": "rest", "to": self.to("rest")}])}))
        d.start()
        self.assertEqual(self.receive_ids(2), ["1", "2"])


if __name__ == "__main__":
    main()
