"""Kafka in its moods: what it refuses and forgets, how it goes away and comes back, and that nothing is lost by it."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from kafka_story import KafkaStory
from penstock import RabbitMQ, free_port, main, penstock, stays, wait_until


class Kafka(KafkaStory):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()


class Lowered(Kafka):
    def lowered(self, connection=None, **topic_config):
        """A daemon that has seen the topic at 100000 bytes; then it takes 5000, and one of 8000 events is larger."""
        lowered = self.new_topic("lowered", 3, max_message_bytes=100000)
        self.db.insert(id="0", type="a.b", streamid="first", streamversion=0)
        c = self.configuration({"orders": self.forwarder(rules=[{"to": {"topic": lowered}}])})
        c["connections"]["kafka"]["kafka"].update({"linger.ms": 20, **(connection or {})})
        return lowered, c

    def lowered_for_mallory(self):
        """Who may not see the limit."""
        lowered, c = self.lowered({
            "bootstrap.servers": self.kafka.kafka_sasl_bootstrap, "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN", "sasl.username": "mallory", "sasl.password": {"env": "KAFKA_SECRET"}})
        for operation in ("Describe", "Write"):
            self.kafka.acl("--add", "--allow-principal", "User:mallory", "--topic", lowered, "--operation", operation)
        return lowered, c

    def poison(self, lowered, c):
        d = self.daemon(c, {"KAFKA_SECRET": "mallory-secret"})
        self.receive(1, topic=lowered)
        self.kafka.alter_topic(lowered, max_message_bytes=5000)
        self.db.sql("""INSERT INTO event (id, type, streamid, streamversion, data)
            SELECT i::text, 'a.b', 's' || i % 1000, i / 1000,
                   json_build_object('x', repeat('y', CASE WHEN i = 4000 THEN 60000 ELSE 20 END))
            FROM generate_series(1, 8000) s(i) ORDER BY s.i""")
        good = 8001 - 5     # 4000, and what is behind it
        began = time.monotonic()
        records = self.receive(good, 60, topic=lowered)
        took = time.monotonic() - began
        self.assert_ordered(records)
        self.assert_nothing_twice(records)
        f = d.wait_state("held", seconds=20)
        self.assertEqual((f["culprit"]["position"], f["counts"]["rejected"]), (4001, 1))
        self.assertNotIn("disconnected", d.log())
        return took, f["counts"]["reconnects"]

    def test_one_message_over_a_lowered_limit_slows_nobody_down(self):
        took, reconnects = self.poison(*self.lowered())
        self.assertLess(took, 20)
        self.assertLessEqual(reconnects, 2)

    def test_without_the_right_to_see_the_limit_that_message_is_found_as_well(self):
        lowered, c = self.lowered_for_mallory()
        took, reconnects = self.poison(lowered, c)
        self.assertLess(took, 40)
        self.assertLessEqual(reconnects, 8)


    def test_the_size_of_the_one_that_is_found_tells_what_batches_are_too_large(self):
        """Without the right to see the limit: else the next batch would be refused as well, and gone through one by one."""
        lowered, c = self.lowered_for_mallory()
        d = self.daemon(c, {"KAFKA_SECRET": "mallory-secret"})
        self.receive(1, topic=lowered)
        self.kafka.alter_topic(lowered, max_message_bytes=5000)
        self.db.insert(id="large", type="a.b", streamid="large", data={"x": "y" * 60000})
        d.wait_state("held")
        self.db.insert_many(3000, streams=100)
        self.assert_nothing_twice(self.receive(3001, 30, topic=lowered))
        self.assertEqual((d.status()["counts"]["rejected"], d.status()["counts"]["reconnects"]), (1, 1))


class Topics(Kafka):
    def test_a_missing_topic_is_reported_and_found_when_it_is_made(self):
        name = self.topic_name("later")
        self.db.insert(id="1", type="a.b", streamid="a")
        self.db.insert(id="2", type="a.c", streamid="b")
        d = self.daemon_for(rules=[{"filter": {"exact": {"type": "a.b"}}, "to": {"topic": name}},
                                   {"to": {"topic": self.topic}}])
        self.assertEqual(self.receive_ids(1), ["2"])
        f = d.wait_state("held")
        self.assertIn(name, f["reason"] + str(f["culprit"]))
        self.assertEqual(f["culprit"]["position"], 1)
        d.wait_log(f"(?m)^.*{name}.*(exist|unknown|missing)")
        self.kafka.create_topic(name)
        self.assertEqual(self.receive_ids(1, topic=name), ["1"])
        self.wait_saved(2)
        d.wait_state("idle")

    def test_a_missing_topic_that_only_a_template_names_holds_no_other(self):
        here, later = self.new_topic("here"), self.topic_name("later")
        self.db.insert(id="0", type="later", streamid="later")
        self.db.insert_many(500, streams=20, type="here")
        d = self.daemon_for(rules=[{"to": {"topic": f"{self.topic_name('')}-{{type}}"}}])
        records = self.receive(500, topic=here)
        self.assert_nothing_twice(records)
        self.assert_ordered(records)
        f = d.wait_state("held")
        self.assertIn(later, f["reason"] + str(f["culprit"]))
        self.kafka.create_topic(later)
        self.assertEqual(self.receive_ids(1, topic=later), ["0"])
        self.wait_saved(501)

    def test_a_topic_deleted_and_made_again_is_found_again(self):
        self.db.insert_many(10)
        d = self.daemon_for()
        self.receive(10)
        self.wait_saved(10)
        self.kafka.delete_topic(self.topic)
        self.db.insert_many(20, first=11)
        d.wait_state("held", "disconnected", "blocked", seconds=20)
        stays(d.alive, 0.5)
        self.kafka.create_topic(self.topic, 3)
        records = self.receive(20, 30)
        self.assertEqual(sorted(int(r.id) for r in records), list(range(11, 31)))
        self.assert_ordered(records)
        self.wait_saved(30)

    def test_a_name_that_no_topic_can_have_is_held_and_disturbs_nobody(self):
        longest = "n" * 249
        self.kafka.create_topic(longest)
        bad = ["n" * 250, "a b", "ä", ".", "..", "a/b", "$x"]
        for n, name in enumerate(bad):
            self.db.insert(id=f"bad{n}", type="a.b", subject=name, streamid=f"bad{n}")
        self.db.insert(id="longest", type="a.b", subject=longest, streamid="longest")
        self.db.insert(id="good", type="a.b", subject=self.topic, streamid="good")
        d = self.daemon_for(rules=[{"to": {"topic": "{subject}"}}])
        self.assertEqual(self.receive_ids(1), ["good"])
        self.assertEqual(self.receive_ids(1, topic=longest), ["longest"])
        f = d.wait_state("held")
        self.assertEqual((f["counts"]["rejected"], f["culprit"]["position"]), (len(bad), 1))
        self.assertIn("249", f["reason"])

    def test_an_event_that_is_too_large_for_its_topic_is_held_by_name_until_it_fits(self):
        small = self.new_topic("small", max_message_bytes=10000)
        self.db.insert(id="fits", type="a.b", streamid="a", data={"x": "y" * 5000})
        self.db.insert(id="large", type="a.b", streamid="b", data={"x": "y" * 20000})
        self.db.insert(id="behind", type="a.b", streamid="b")
        self.db.insert(id="other", type="a.b", streamid="c")
        c = self.configuration({"orders": self.forwarder(rules=[{"to": {"topic": small}}])})
        d = self.daemon(c)
        self.assertEqual(sorted(self.receive_ids(2, topic=small)), ["fits", "other"])
        f = d.wait_state("held")
        self.assertEqual((f["culprit"]["position"], f["counts"]["rejected"], f["counts"]["reconnects"]), (2, 1, 0))
        for word in ("10000", small):
            self.assertIn(word, f["reason"] + str(f["culprit"]))
        self.wait_saved(1)
        self.assertEqual(self.db.checkpoint_position(), 1)
        self.kafka.alter_topic(small, max_message_bytes=100000)
        d.stop()
        d.start()
        self.wait_saved(4)
        records = self.receive(4, topic=small)
        self.assertEqual([r.id for r in records if r.key == b"b"], ["large", "behind"])

    def test_a_limit_lowered_while_it_runs_is_found_and_the_event_named(self):
        """The look at the start said that it fits; the broker says it doesn't."""
        lowered = self.new_topic("lowered", max_message_bytes=100000)
        self.db.insert(id="1", type="a.b", streamid="a")
        d = self.daemon_for(rules=[{"to": {"topic": lowered}}])
        self.receive(1, topic=lowered)
        self.kafka.alter_topic(lowered, max_message_bytes=5000)
        self.db.insert(id="large", type="a.b", streamid="b", data={"x": "y" * 20000})
        self.db.insert_many(20, first=3, streams=4)
        records = self.receive(21, 30, topic=lowered)
        self.assert_nothing_twice(records)
        self.assert_ordered([r for r in records if r.id != "1"])
        f = d.wait_state("held", seconds=20)
        self.assertEqual((f["culprit"]["position"], f["counts"]["rejected"]), (2, 1))

    def test_poison_in_a_busy_topic_is_found_event_by_event_and_the_rest_goes_in_order(self):
        lowered = self.new_topic("lowered", 3, max_message_bytes=100000)
        self.db.insert(id="0", type="a.b", streamid="first", streamversion=0)
        d = self.daemon_for(rules=[{"to": {"topic": lowered}}])
        self.receive(1, topic=lowered)
        self.kafka.alter_topic(lowered, max_message_bytes=5000)
        poison = (500, 1501, 2902)
        self.db.sql("""INSERT INTO event (id, type, streamid, streamversion, data)
            SELECT i::text, 'a.b', 's' || i %% 10, i / 10,
                   json_build_object('x', repeat('y', CASE WHEN i = ANY (%s) THEN 20000 ELSE 20 END))
            FROM generate_series(1, 3000) s(i) ORDER BY s.i""", list(poison))
        behind = {i for p in poison for i in range(p, 3001, 10)}
        good = set(range(3001)) - behind
        records = self.receive(len(good), 60, topic=lowered)
        self.assertEqual({int(r.id) for r in records}, good)
        self.assert_ordered(records)
        wait_until(lambda: d.status()["counts"]["rejected"] >= 3, 20, "each named")
        f = d.wait_state("held")
        self.assertEqual((f["culprit"]["position"], f["counts"]["rejected"]), (501, 3))
        self.assert_nothing_twice(records)

    def test_an_event_is_rejected_only_by_what_the_topic_takes_now(self):
        small = self.new_topic("small", max_message_bytes=10000)
        d = self.daemon_for(rules=[{"to": {"topic": small}}])
        d.wait_state("idle")
        time.sleep(3)  # what is known is that old
        self.kafka.alter_topic(small, max_message_bytes=100000)
        self.db.insert(id="large", type="a.b", streamid="b", data={"x": "y" * 20000})
        self.assertEqual(self.receive_ids(1, topic=small), ["large"])
        d.wait_state("idle")

    def test_a_partition_that_is_added_is_found_by_the_event_that_goes_there(self):
        self.db.insert(id="1", type="a.b", streamid="a")
        d = self.daemon_for(rules=[{"to": {"topic": self.topic, "partition": 3}}])
        d.wait_state("held")
        self.kafka.topics.add_partitions(self.topic, 4)
        self.assertEqual(self.receive_ids(1), ["1"])
        d.wait_state("idle")

    def test_a_partition_that_the_topic_does_not_have_is_said(self):
        self.db.insert(id="1", type="a.b", streamid="a")
        self.db.insert(id="2", type="a.c", streamid="b")
        d = self.daemon_for(rules=[{"filter": {"exact": {"type": "a.b"}}, "to": {"topic": self.topic, "partition": 9}},
                                   {"to": {"topic": self.topic}}])
        self.assertEqual(self.receive_ids(1), ["2"])
        f = d.wait_state("held")
        self.assertIn("9", f["reason"])
        self.assertIn("partition", f["reason"])


class Notices(Kafka):
    """What the start-up report says of the topics."""

    def test_a_topic_whose_limit_is_below_ours_is_named(self):
        small = self.new_topic("small", max_message_bytes=50000)
        d = self.daemon_for(rules=[{"to": {"topic": small}}])
        d.wait_log(f"(?m)^.*{small}.*50000")

    def test_a_null_payload_on_a_compacted_topic_is_a_tombstone_and_said(self):
        compacted = self.new_topic("compacted", cleanup_policy="compact")
        self.db.insert(id="1", type="a.b", streamid="s")
        d = self.daemon_for(rules=[{"to": {"topic": compacted}}])
        self.assertIsNone(self.receive(1, topic=compacted)[0].value)
        d.wait_log(f"(?m)^.*{compacted}.*(compact|tombstone)")

    def test_topics_that_only_templates_will_name_are_announced(self):
        d = self.daemon_for(rules=[{"to": {"topic": "{type}"}}])
        d.wait_state("idle")
        d.wait_log("template")

    def test_nothing_is_said_of_a_topic_that_is_as_it_should_be(self):
        d = self.daemon_for(sink={"max_message_bytes": "900KiB"})
        self.db.insert_many(10)
        self.receive(10)
        d.wait_state("idle")
        self.assertNotIn(self.topic, d.log())


class Rights(Kafka):
    """mallory may do what `kafka acl` lets her."""

    def mallory(self):
        return {"bootstrap.servers": self.kafka.kafka_sasl_bootstrap, "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "PLAIN", "sasl.username": "mallory", "sasl.password": {"env": "KAFKA_SECRET"}}

    def test_what_is_not_authorised_is_held_and_goes_on_once_it_is(self):
        self.db.insert_many(5)
        c = self.configuration()
        c["connections"]["kafka"]["kafka"] = self.mallory()
        d = self.daemon(c, {"KAFKA_SECRET": "mallory-secret"})
        f = d.wait_state("held", "refused", "disconnected")
        wait_until(lambda: "uthori" in (d.status()["reason"] or ""), what=f"the broker's word: {d.status()}")
        self.assertIn(self.topic, d.status()["reason"] + str(f["culprit"]) + d.log())
        self.assertEqual(self.kafka.count(self.topic), 0)
        self.kafka.acl("--add", "--allow-principal", "User:mallory", "--operation", "Describe", "--operation", "Write",
                       "--topic", self.topic)
        records = self.receive(5, 30)
        self.assert_nothing_twice(records)
        self.wait_saved(5)
        # And taken away while it delivers.
        self.kafka.acl("--remove", "--force", "--allow-principal", "User:mallory", "--operation", "Write",
                       "--topic", self.topic)
        self.db.insert_many(5, first=6)
        d.wait_state("held", "blocked", "disconnected", seconds=20)
        self.assertEqual(self.db.checkpoint_position(), 5)
        self.kafka.acl("--add", "--allow-principal", "User:mallory", "--operation", "Write", "--topic", self.topic)
        self.wait_saved(10, seconds=60)
        records = self.receive(10)
        self.assert_nothing_twice(records)
        self.assert_ordered(records)


    def test_a_topic_that_may_be_seen_but_not_written_holds_no_other(self):
        secret = self.new_topic("secret")
        for topic, operations in ((secret, ("Describe",)), (self.topic, ("Describe", "Write"))):
            self.kafka.acl("--add", "--allow-principal", "User:mallory", "--topic", topic,
                           *(word for operation in operations for word in ("--operation", operation)))
        for n in range(5):
            self.db.insert(id=f"secret{n}", type="secret", streamid=f"secret{n}")
        self.db.insert_many(2000, streams=50)
        c = self.configuration({"orders": self.forwarder(rules=[
            {"filter": {"exact": {"type": "secret"}}, "to": {"topic": secret}}, {"to": {"topic": self.topic}}])})
        c["connections"]["kafka"]["kafka"] = self.mallory()
        d = self.daemon(c, {"KAFKA_SECRET": "mallory-secret"})
        records = self.receive(2000, 30)
        self.assert_ordered(records)
        f = d.wait_state("held")
        self.assertIn(secret, f["reason"] + str(f["culprit"]))
        stays(lambda: d.status()["state"] == "held" and d.status()["sink"]["connected"], 3, str(d.status()))
        self.db.insert_many(100, first=2001, streams=50)
        records = self.receive(2100, 15)
        self.assert_nothing_twice(records)
        self.kafka.acl("--add", "--allow-principal", "User:mallory", "--topic", secret, "--operation", "Write")
        self.receive(5, 60, topic=secret)


class Security(Kafka):
    def connected(self, environment=None, **properties):
        self.db.insert_many(20)
        c = self.configuration()
        c["connections"]["kafka"]["kafka"] = {name.replace("_", "."): value for name, value in properties.items()}
        return self.daemon(c, environment)

    def sasl(self, mechanism, password, **properties):
        return {"bootstrap_servers": self.kafka.kafka_sasl_bootstrap, "security_protocol": "sasl_plaintext",
                "sasl_mechanism": mechanism, "sasl_username": "alice", "sasl_password": password, **properties}

    def test_tls_with_the_authority_that_signed_it(self):
        self.connected(bootstrap_servers=self.kafka.kafka_tls_bootstrap, security_protocol="ssl",
                       ssl_ca_location=self.kafka.ca_file)
        self.assert_nothing_twice(self.receive(20))

    def test_tls_with_an_unknown_authority_is_refused(self):
        d = self.connected(bootstrap_servers=self.kafka.kafka_tls_bootstrap, security_protocol="ssl")
        d.wait_state("disconnected")
        wait_until(lambda: any(w in d.status()["reason"].lower() for w in ("certificate", "ssl", "tls")), what=str(d.status()))
        stays(lambda: not d.status()["sink"]["connected"], 1)
        self.assertEqual(self.kafka.count(self.topic), 0)

    def test_plain_over_tls(self):
        self.connected({"KAFKA_SECRET": "alice-secret"}, **self.sasl(
            "PLAIN", {"env": "KAFKA_SECRET"}, bootstrap_servers=self.kafka.kafka_sasl_tls_bootstrap,
            security_protocol="sasl_ssl", ssl_ca_location=self.kafka.ca_file))
        self.assert_nothing_twice(self.receive(20))

    def wrong_password(self, mechanism):
        secret = os.path.join(self.directory, "secret")
        with open(secret, "w") as f:
            f.write("hunter2-wrong")
        os.chmod(secret, 0o600)
        d = self.connected(**self.sasl(mechanism, {"file": secret}))
        d.wait_state("disconnected", "refused")
        wait_until(lambda: "uthenticat" in d.status()["reason"], what=str(d.status()))
        stays(lambda: not d.status()["sink"]["connected"], 1)
        self.assertNotIn("hunter2", d.log() + str(d.get("/status")))
        with open(secret, "w") as f:
            f.write("alice-secret")
        self.assert_nothing_twice(self.receive(20, 30))
        self.assertNotIn("alice-secret", d.log() + str(d.get("/status")))

    def test_a_wrong_password_is_said_without_it_and_goes_on_once_it_is_right(self):
        self.wrong_password("PLAIN")

    def test_a_secret_in_the_file_is_printed_nowhere(self):
        d = self.connected(**self.sasl("PLAIN", "alice-secret"))
        self.receive(20)
        status, out, err = penstock("config", "-c", d.config_file)
        self.assertEqual(status, 0, err)
        self.assertIn("sasl.username", out)
        self.assertNotIn("alice-secret", out + err + d.log())


class Scram(Security):
    """On an older Kafka: librdkafka before 2.6.1 can't log in to Kafka 4 by SCRAM."""

    own_servers = True
    server_options = ("--tls", "--sasl", "--release", "3.9.2")

    def test_both_mechanisms_over_tls(self):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            self.topic = self.new_topic(mechanism)
            d = self.connected({"KAFKA_SECRET": "alice-secret"}, **self.sasl(
                mechanism, {"env": "KAFKA_SECRET"}, bootstrap_servers=self.kafka.kafka_sasl_tls_bootstrap,
                security_protocol="sasl_ssl", ssl_ca_location=self.kafka.ca_file))
            self.assert_nothing_twice(self.receive(20))
            d.stop()
            self.db.sql("TRUNCATE event")

    def test_a_wrong_password_is_said_without_it_and_goes_on_once_it_is_right(self):
        self.wrong_password("SCRAM-SHA-256")


class Load(Kafka):
    COUNT = 30000

    def partly_delivered(self, share, seconds=30):
        wait_until(lambda: self.kafka.count(self.topic) > share, seconds, f"{share} records")

    def all_delivered(self, seconds=60):
        self.wait_saved(self.COUNT, seconds=seconds)
        records = self.receive(self.COUNT)
        self.assertEqual({int(r.id) for r in records}, set(range(1, self.COUNT + 1)))
        self.assert_ordered(records)
        return records

    def test_a_backlog_is_delivered_once_and_in_order(self):
        self.db.insert_many(self.COUNT, streams=97)
        d = self.daemon_for()
        records = self.all_delivered()
        self.assert_nothing_twice(records)
        self.assertEqual(d.status()["counts"]["confirmed"], self.COUNT)
        d.wait_state("idle")

    def test_total_order_where_asked_for(self):
        self.db.insert_many(300, streams=10)
        self.daemon_for(order={"by": "all"}, rules=[{"to": {"topic": self.topic, "partition": 0}}])
        self.assertEqual(self.receive_ids(300), [str(i) for i in range(1, 301)])

    def test_a_stop_under_load_repeats_nothing(self):
        self.db.insert_many(self.COUNT, streams=97)
        d = self.daemon_for()
        for share in (1000, 8000, 16000):
            self.partly_delivered(share)
            self.assertEqual(d.stop(), 0, d.log()[-2000:])
            d.start()
        self.assert_nothing_twice(self.all_delivered())

    def test_killed_with_9_it_repeats_no_more_than_its_window(self):
        self.db.insert_many(self.COUNT, streams=97)
        d = self.daemon_for(window={"events": 500, "unsaved": 1000})
        for share in (1000, 8000, 16000):
            self.partly_delivered(share)
            d.kill()
            d.start()
        records = self.all_delivered()
        self.assertLessEqual(len(records) - self.COUNT, 3 * 1500)

    def test_cut_connections_repeat_nothing_and_keep_the_order(self):
        proxy = self.kafka.proxy()
        self.addCleanup(proxy.close)
        self.db.insert_many(self.COUNT, streams=97)
        d = self.daemon(self.configuration(broker_port=proxy.port))
        for share in (1000, 8000, 16000):
            self.partly_delivered(share)
            proxy.cut()
        self.assert_nothing_twice(self.all_delivered())     # the idempotent producer knows what the broker has
        d.wait_state("idle")

    def test_answers_that_do_not_come_are_said_and_nothing_is_given_up(self):
        proxy = self.kafka.proxy()
        self.addCleanup(proxy.close)
        d = self.daemon(self.configuration({"orders": self.forwarder(sink={"ack_timeout": "1s"})}, broker_port=proxy.port))
        d.wait_state("idle")
        proxy.stall(down=True)
        self.db.insert_many(10, streams=1)
        f = d.wait_state("blocked", "disconnected")
        self.assertTrue(f["reason"])
        self.assertEqual(self.db.checkpoint_position() or 0, 0)
        proxy.resume()
        self.wait_saved(10, seconds=30)
        records = self.receive(10)
        self.assert_ordered(records)
        self.assert_nothing_twice(records)
        d.wait_state("idle")

    def test_a_stop_that_cannot_settle_is_1_and_says_what_will_be_sent_again(self):
        proxy = self.kafka.proxy()
        self.addCleanup(proxy.close)
        d = self.daemon(self.configuration(broker_port=proxy.port, stop_timeout="1s"))
        self.db.insert_many(1, streams=1)
        self.wait_saved(1)  # the producer has its id, and its connection to the leader
        proxy.stall(down=True)
        self.db.insert_many(3, streams=3)
        wait_until(lambda: self.kafka.count(self.topic) > 1)
        began = time.monotonic()
        self.assertEqual(d.stop(), 1)
        self.assertLess(time.monotonic() - began, 4)
        d.wait_log("again")

    def test_a_stop_while_the_broker_is_away_does_not_wait_for_it(self):
        self.db.insert_many(3)
        d = self.daemon(self.configuration(broker_port=free_port()))
        f = d.wait_state("disconnected")
        self.assertTrue(f["reason"])
        began = time.monotonic()
        self.assertEqual(d.stop(), 0)
        self.assertLess(time.monotonic() - began, 3)


class Away(Kafka):
    own_servers = True

    def test_it_starts_with_the_broker_away_and_comes_up_by_itself(self):
        self.kafka.stop()
        self.db.insert_many(10, streams=1)
        d = self.daemon()
        f = d.wait_state("disconnected")
        self.assertFalse(f["sink"]["connected"])
        stays(d.alive, 0.5)
        self.kafka.start()
        self.assertEqual(self.receive_ids(10, 30), [str(i) for i in range(1, 11)])
        d.wait_state("idle")

    def test_a_broker_restarted_under_load_is_found_again_and_nothing_is_missing(self):
        for how in (self.kafka.restart, lambda: (self.kafka.kill(), self.kafka.start())):
            self.db.insert_many(20000, first=(self.db.value("SELECT count(*) FROM event") or 0) + 1, streams=50)
            d = self.daemons[0] if self.daemons else self.daemon_for()
            before = self.kafka.count(self.topic)
            wait_until(lambda: self.kafka.count(self.topic) > before + 1000, 30)
            how()
            self.wait_saved(self.db.value("SELECT max(position) FROM event"), seconds=60)
            d.wait_state("idle")
        records = self.receive(40000)
        self.assertEqual(len({r.id for r in records}), 40000)
        self.assert_ordered(records)
        self.assert_nothing_twice(records)

    def test_a_frozen_broker_is_a_state_and_the_events_go_when_it_thaws(self):
        self.db.insert_many(10)
        d = self.daemon_for(sink={"ack_timeout": "1s"})
        self.receive(10)
        d.wait_state("idle")
        self.kafka.freeze()
        try:
            self.db.insert_many(10, first=11)
            f = d.wait_state("blocked", "disconnected")
            self.assertTrue(f["reason"])
            self.assertEqual(self.db.checkpoint_position(), 10)
        finally:
            self.kafka.thaw()
        self.wait_saved(20, seconds=40)
        records = self.receive(20)
        self.assert_nothing_twice(records)
        self.assert_ordered(records)


class Switch(Kafka):
    """From RabbitMQ to Kafka by connection and destinations only."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rabbitmq = cls.server(RabbitMQ, "--tls")

    def test_a_forwarder_keeps_its_place(self):
        name = f"switch-{self.stories}"
        self.rabbitmq.queue(name, self.rabbitmq.exchange(name))
        c = self.configuration()
        c["connections"]["rabbit"] = {"rabbitmq": {"uri": self.rabbitmq.uri()}}
        orders = c["forwarders"]["orders"]
        orders["sink"]["connection"] = "rabbit"
        orders["rules"][0]["to"] = {"exchange": name, "routing_key": "{type}"}
        self.db.insert_many(20)
        d = self.daemon(c)
        self.rabbitmq.receive(name, 20)
        self.assertEqual(d.stop(), 0)
        self.db.insert_many(20, first=21)
        orders["sink"]["connection"] = "kafka"
        orders["rules"][0]["to"] = {"topic": self.topic}
        d.write(c)
        d.start()
        records = self.receive(20)
        self.wait_saved(40)
        self.assertEqual(sorted(int(r.id) for r in records), list(range(21, 41)))
        self.assertEqual(self.rabbitmq.count(name), 0)
        # And back.
        self.assertEqual(d.stop(), 0)
        self.db.insert_many(20, first=41)
        orders["sink"]["connection"] = "rabbit"
        orders["rules"][0]["to"] = {"exchange": name, "routing_key": "{type}"}
        d.write(c)
        d.start()
        self.assertEqual([m.id for m in self.rabbitmq.receive(name, 20)], [str(i) for i in range(41, 61)])
        self.assertEqual(self.kafka.count(self.topic), 20)


if __name__ == "__main__":
    main()
