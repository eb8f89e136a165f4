"""penstock check --connect: what a start would find at database and broker, without starting and without writing."""

import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from kafka_story import KafkaStory
from penstock import Case, Proxy, Story, main, penstock, wait_until


class Check(Story):
    def check(self, configuration, *arguments):
        """(exit status, standard output); nothing is ever said on standard error."""
        self.config_file = os.path.join(self.directory, "penstock.yaml")
        with open(self.config_file, "w") as f:
            json.dump(configuration, f)
        code, out, err = penstock("check", "--connect", "-c", self.config_file, *arguments)
        self.assertEqual(err, "")
        return code, out

    def check_one(self, source=None, sink=None, **keys):
        return self.check(self.configuration({"orders": self.forwarder(source, sink, **keys)}))

    def findings(self, out, level):
        return re.findall(rf"^orders: {level}: (.*)$", out, re.M)

    def everything(self):
        """All that stands in the database, as far as Penstock could write it."""
        return self.db.sql("""SELECT (SELECT array_agg(nspname::text ORDER BY 1) FROM pg_namespace),
            (SELECT array_agg(oid ORDER BY 1) FROM pg_class WHERE relname !~ '^pg_'), pg_current_xact_id_if_assigned()""")

    def run_psql(self, text, pattern):
        for statement in re.findall(pattern, text):
            self.db.sql(statement)


class Database(Check, Case):
    def test_a_place_that_is_fit_is_ready_and_nothing_is_written(self):
        self.db.create_event_table()
        self.db.sql(penstock("schema")[1])
        self.db.insert_many(3)
        before = self.everything()
        code, out = self.check_one()
        self.assertEqual(code, 0, out)
        self.assertIn("accepted, 0 errors", out)
        self.assertTrue(out.endswith("orders: ready, 0 errors, 0 warnings\n"), out)
        self.assertIn("it has no checkpoint yet", out)
        self.assertEqual(self.everything(), before)
        self.assertIsNone(self.db.checkpoint())
        self.assert_queue_empty()

    def test_with_create_true_our_tables_are_not_made_but_it_says_whether_they_could_be(self):
        self.db.create_event_table()
        before = self.everything()
        code, out = self.check_one()
        self.assertEqual(code, 0, out)
        self.assertIn("the start makes them", self.findings(out, "note")[0])
        self.assertEqual(self.everything(), before)
        self.db.sql(f"CREATE ROLE poor_{self.stories} LOGIN; GRANT SELECT ON event TO poor_{self.stories}; "
                    f"GRANT SELECT ON event_position_seq TO poor_{self.stories}")
        c = self.configuration()
        c["connections"]["db"]["postgresql"]["conninfo"] += f" user=poor_{self.stories}"
        code, out = self.check(c)
        self.assertEqual(code, 1, out)
        self.assertEqual(len(self.findings(out, "error")), 1, out)
        self.assertIn("can't be made", out)

    def test_all_findings_of_both_sides_come_in_one_run_and_their_statements_mend_them(self):
        self.db.sql("""CREATE TABLE event (position bigint, id text, source text DEFAULT '/s', type text DEFAULT 'a.b');
            INSERT INTO event SELECT i, i FROM generate_series(1, 20) i""")
        name = self.exchange + "-later"
        c = self.configuration({"orders": self.forwarder({"mode": "snapshot"}, rules=[
            {"filter": {"exact": {"type": "x"}}, "to": {"exchange": name, "routing_key": "k"}},
            {"filter": {"exact": {"type": "y"}}, "to": {"exchange": "", "routing_key": name}},
            {"to": self.destination()}])}, checkpoint={"create": False})
        code, out = self.check(c)
        self.assertEqual(code, 1, out)
        errors = self.findings(out, "error")
        for words in ("there is no table \"penstock\".checkpoint", "no transaction-id column", f"exchange '{name}' does not exist",
                      f"queue '{name}', which the default exchange"):
            self.assertEqual(len([e for e in errors if words in e]), 1, f"{words}: {out}")
        self.assertIn("not ready", out.splitlines()[-1])
        self.db.sql(penstock("schema")[1])
        self.run_psql(out, r"\b(?:GRANT|ALTER|CREATE INDEX|UPDATE|DROP)\b[^;]*;")
        self.db.sql("ALTER TABLE event ADD CONSTRAINT one UNIQUE (position)")
        self.rabbitmq.exchange(name)
        self.rabbitmq.queue(name)
        code, out = self.check(c)
        self.assertEqual((code, self.findings(out, "error")), (0, []), out)

    def test_a_warning_alone_is_ready(self):
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event DROP xid; ALTER SEQUENCE event_position_seq CACHE 20")
        code, out = self.check_one()
        self.assertEqual(code, 0, out)
        self.assertIn("hands out 20 positions at once", "".join(self.findings(out, "warning")))
        self.assertRegex(out, r"orders: ready, 0 errors, [1-9] warnings?\n$")

    def test_a_checkpoint_that_can_not_be_gone_on_from_is_said(self):
        self.db.create_event_table()
        d = self.daemon()
        self.db.insert_many(3)
        self.receive(3)
        self.wait_saved(3)
        code, out = self.check(self.configuration())        # beside a daemon that runs
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"its checkpoint is at position 3; instance \S+ has the lease")
        epoch = self.db.checkpoint()["epoch"]
        self.db.insert_many(3, first=4)
        self.receive(3)                                     # which goes on, its row is as it was
        self.assertEqual(self.db.checkpoint()["epoch"], epoch)
        self.assertEqual(d.stop(), 0)
        for change, words in (("cursor = 'nothing like it'", "nothing like it"),
                              ("""cursor = '{"v": 1, "mode": "snapshot", "s": "900000000:900000000:"}'""", "beyond"),
                              ("system_identifier = '7000000000000000000'", "belongs to another cluster")):
            self.db.sql(f"UPDATE penstock.checkpoint SET {change}")
            before = self.db.checkpoint()
            code, out = self.check(self.configuration())
            self.assertEqual(code, 1, out)
            self.assertIn(words, "".join(self.findings(out, "error")))
            self.assertEqual(self.db.checkpoint(), before)

    def test_as_json_for_programs(self):
        self.db.sql("CREATE TABLE other (i int)")
        c = self.configuration({"orders": self.forwarder(), "others": self.forwarder({"table": "other"})})
        code, out = self.check(c, "--json")
        document = json.loads(out)
        self.assertEqual((code, document["accepted"], document["ready"]), (1, True, False))
        self.assertEqual([f["name"] for f in document["forwarders"]], ["orders", "others"])
        for f in document["forwarders"]:
            self.assertFalse(f["ready"])
            self.assertIn("error", [x["level"] for x in f["findings"]])
            self.assertEqual({frozenset(x) for x in f["findings"]}, {frozenset(("level", "place", "text"))})

    def test_of_a_configuration_that_is_refused_nothing_is_asked(self):
        code, out = self.check({"connections": {}, "forwarders": {"orders": {}}}, "--json")
        document = json.loads(out)
        self.assertEqual((code, document["accepted"]), (1, False))
        self.assertNotIn("forwarders", document)


class Away(Check, Case):
    """Servers that are away, refuse us or say nothing."""

    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def test_both_sides_are_said_and_the_password_is_not(self):
        proxy = Proxy("127.0.0.1", self.postgres.pgport)
        self.addCleanup(proxy.close)
        proxy.refuse()
        c = self.configuration(db_port=proxy.port)
        c["connections"]["db"]["postgresql"]["password"] = "Geheim1"
        c["connections"]["rabbit"]["rabbitmq"]["uri"] = self.rabbitmq.uri().replace("guest:guest", "guest:Geheim2")
        code, out = self.check(c)
        self.assertEqual(code, 1, out)
        errors = self.findings(out, "error")
        self.assertEqual(sorted(re.match(r"connection '(\w+)'", e).group(1) for e in errors), ["db", "rabbit"], out)
        self.assertIn("ACCESS_REFUSED", out)
        self.assertNotIn("Geheim", out)

    def test_what_says_nothing_is_given_up_in_time(self):
        to_db, to_broker = Proxy("127.0.0.1", self.postgres.pgport), Proxy("127.0.0.1", self.rabbitmq.amqp_port)
        for proxy in (to_db, to_broker):
            self.addCleanup(proxy.close)
            proxy.stall(up=True, down=True)
        c = self.configuration(db_port=to_db.port, broker_port=to_broker.port)
        c["connections"]["db"]["postgresql"]["connect_timeout"] = "10min"
        c["connections"]["rabbit"]["rabbitmq"]["connect_timeout"] = "2s"
        begun = time.monotonic()
        code, out = self.check(c)
        self.assertLess(time.monotonic() - begun, 40)
        self.assertEqual(code, 1)
        self.assertEqual(len(self.findings(out, "error")), 2, out)

    def test_hosts_are_tried_in_turn(self):
        proxy = Proxy("127.0.0.1", self.rabbitmq.amqp_port)
        self.addCleanup(proxy.close)
        proxy.refuse()
        c = self.configuration()
        c["connections"]["rabbit"]["rabbitmq"]["hosts"] = [f"127.0.0.1:{proxy.port}", f"127.0.0.1:{self.rabbitmq.amqp_port}"]
        code, out = self.check(c)
        self.assertEqual(code, 0, out)

    def test_a_user_who_may_only_publish_is_enough(self):
        self.rabbitmq.ctl("add_user", "poor", "poor")
        self.addCleanup(self.rabbitmq.ctl, "delete_user", "poor")
        self.rabbitmq.ctl("set_permissions", "poor", "^$", f"^{self.exchange}$", "^$")
        c = self.configuration()
        c["connections"]["rabbit"]["rabbitmq"]["uri"] = self.rabbitmq.uri().replace("guest:guest", "poor:poor")
        code, out = self.check(c)
        self.assertEqual(code, 0, out)
        c["forwarders"]["orders"]["rules"][0]["to"]["exchange"] += "-later"
        self.assertIn("does not exist", "".join(self.findings(self.check(c)[1], "error")))

    def test_many_forwarders_are_looked_at_in_turns(self):
        c = self.configuration({f"f{i:02}": self.forwarder() for i in range(20)})
        code, out = self.check(c)
        self.assertEqual(code, 0, out)
        self.assertEqual(re.findall(r"^(\w+): ready", out, re.M), [f"f{i:02}" for i in range(20)])
        wait_until(lambda: self.db.value("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'penstock/%'") == 0)


class Daemon(Case):
    def test_exchanges_that_are_missing_at_the_start_are_in_its_report(self):
        self.db.create_event_table()
        name = self.exchange + "-later"
        d = self.daemon_for(rules=[{"filter": {"exact": {"type": "late"}}, "to": {"exchange": name, "routing_key": "k"}},
                                   {"to": self.destination()}])
        d.wait_log(f"warning orders: connection 'rabbit': exchange '{name}' does not exist in virtual host '/': its events wait. "
                   f"To make it: rabbitmqadmin --vhost='/' declare exchange name='{name}' type=topic durable=true")
        self.rabbitmq.exchange(name)
        self.rabbitmq.bind(self.queue, name)
        d.wait_log(f"exchange '{name}' is there now")
        self.db.insert(id="1", type="late", streamid="a")
        self.assertEqual([m.id for m in self.receive(1)], ["1"])
        self.assertNotIn("held", d.log())


class OnKafka(Check, KafkaStory):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def test_a_topic_that_is_there_is_ready(self):
        code, out = self.check_one()
        self.assertEqual(code, 0, out)
        self.assertEqual(self.receive(0), [])

    def test_a_missing_one_is_said_with_what_makes_it_and_is_not_made(self):
        name = self.topic + "-later"
        code, out = self.check_one(rules=[{"to": {"topic": name}}])
        self.assertEqual(code, 1, out)
        self.assertIn(f"topic '{name}' does not exist", self.findings(out, "error")[0])
        self.assertIn("kafka-topics.sh", out)
        self.assertEqual(self.check_one(rules=[{"to": {"topic": name}}])[0], 1)

    def test_what_only_costs_is_a_warning(self):
        name = self.new_topic("compact", cleanup_policy="compact")
        code, out = self.check_one(rules=[{"to": {"topic": name}}])
        self.assertEqual(code, 0, out)
        self.assertIn("is compacted", "".join(self.findings(out, "warning")))

    def test_templates_alone_name_no_topic_but_the_broker_is_asked(self):
        code, out = self.check_one(rules=[{"to": {"topic": "{type}"}}])
        self.assertEqual(code, 0, out)
        self.assertIn("only templates name", "".join(self.findings(out, "note")))

    def test_a_broker_that_is_away_is_said(self):
        proxy = Proxy("127.0.0.1", 9)
        self.addCleanup(proxy.close)
        proxy.refuse()
        for rules in ([{"to": {"topic": "{type}"}}], [{"to": self.destination()}]):
            code, out = self.check(self.configuration({"orders": self.forwarder(rules=rules)}, broker_port=proxy.port))
            self.assertEqual(code, 1, out)
            self.assertIn("connection 'kafka'", self.findings(out, "error")[0])


if __name__ == "__main__":
    main()
