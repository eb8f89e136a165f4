"""Kafka, a cluster of three: one partition that stands holds no other, and nothing of it is lost or given up."""

import os
import sys

import confluent_kafka as ck

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from kafka_story import KafkaStory
from penstock import main, wait_until


class Cluster(KafkaStory):
    """All of it is on all three; two must have it, and for the topic `strict` all of them."""

    own_servers = True
    server_options = ("--nodes", "3")
    replicas = 3
    topic_config = {"min_insync_replicas": 2}

    def setUp(self):
        super().setUp()
        self.db.create_event_table()
        self.strict = self.kafka.create_topic(self.topic_name("strict"), 1, 3, min_insync_replicas=3)
        self.away = False
        self.addCleanup(self.bring_back)

    def forwarder_for_both(self):
        return self.daemon_for(sink={"ack_timeout": "1s"}, rules=[
            {"filter": {"exact": {"type": "strict"}}, "to": {"topic": self.strict}}, {"to": {"topic": self.topic}}])

    def in_sync(self):
        try:
            return len(self.kafka.topics.in_sync(self.strict))
        except ck.KafkaException:
            return 0    # the one that was asked has gone just then

    def take_one_away(self):
        """Whether it leads a partition or not."""
        wait_until(lambda: self.in_sync() == 3, 60, "a cluster of three")
        self.away = True
        self.kafka.kill(3)
        wait_until(lambda: self.in_sync() == 2, 60, "a cluster of two")

    def bring_back(self):
        if self.away:
            self.kafka.start_node(3)
        self.away = False

    def too_few_replicas_for_one(self, d, strict_before):
        """20 for the topic that can't be confirmed, and far more than any number in flight for the other one."""
        self.db.sql("""INSERT INTO event (id, type, streamid, streamversion)
            SELECT 'strict' || i, 'strict', 'strict', i FROM generate_series(%s::int, %s::int) s(i)
            ORDER BY s.i""", strict_before, strict_before + 19)
        self.db.insert_many(9000, streams=97)
        records = self.receive(9000, 60)
        self.assert_ordered(records)
        f = d.wait_state("blocked", seconds=20)
        wait_until(lambda: "min.insync.replicas is 3" in (d.status()["reason"] or ""), 20, f"why: {d.status()}")
        f = d.status()
        self.assertIn(self.strict, f["reason"])
        self.assertIn("2 of 3 replicas", f["reason"])
        self.assertTrue(f["sink"]["connected"])
        self.assertEqual(f["counts"]["rejected"], 0)

    def all_comes(self, d, strict):
        self.bring_back()
        records = self.receive(strict, 60, topic=self.strict)
        self.assertEqual([r.id for r in records], [f"strict{i}" for i in range(strict)])
        self.assertEqual(len(self.receive(9000)), 9000)
        d.wait_state("idle", seconds=20)
        self.assertEqual(d.status()["counts"]["confirmed"], 9000 + strict)

    def test_a_partition_that_has_confirmed_before(self):
        self.db.insert(id="strict0", type="strict", streamid="strict", streamversion=0)
        d = self.forwarder_for_both()
        self.receive(1, topic=self.strict)
        d.wait_state("idle")
        self.take_one_away()
        self.too_few_replicas_for_one(d, 1)
        self.all_comes(d, 21)

    def test_a_partition_that_has_confirmed_nothing_yet(self):
        self.take_one_away()
        d = self.forwarder_for_both()
        self.too_few_replicas_for_one(d, 0)
        self.all_comes(d, 20)


if __name__ == "__main__":
    main()
