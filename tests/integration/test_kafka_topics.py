"""What a look finds of topics on a real Kafka, and what users would hear of it."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from kafka_broker import Kafka
from penstock import ROOT, main, wait_until

PROGRAM = "tests/integration/test_kafka_look"


class Look:
    """tests/integration/test_kafka_look: one answer a call."""

    def __init__(self, properties, topics, max_message_bytes=1000000):
        self.process = subprocess.Popen(
            [os.path.join(ROOT, "build", PROGRAM), str(max_message_bytes), *(f"{k}={v}" for k, v in properties.items()), *topics],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self):
        """topic -> its line without the name, and the notices."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        topics, rest = {}, []
        while (line := self.process.stdout.readline().rstrip("\n")) != ".":
            if line == "":
                raise AssertionError(f"the program ended: {self.process.wait()}")
            if line.startswith("topic "):
                _, name, found = line.split(" ", 2)
                topics[name] = found
            else:
                rest.append(line)
        self.notices = rest
        return topics, rest

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(30)


class Story(unittest.TestCase):
    options = ()

    @classmethod
    def setUpClass(cls):
        subprocess.run(["make", "-s", os.path.join("build", PROGRAM)], cwd=ROOT, check=True)
        cls.kafka = Kafka(tempfile.mkdtemp(prefix="penstock-kafka-"))
        cls.addClassCleanup(cls.kafka.clean)
        cls.kafka.start(*cls.options)

    def look(self, *topics, properties=None, **keys):
        look = Look(properties or {"bootstrap.servers": self.kafka.kafka_bootstrap}, topics, **keys)
        self.addCleanup(lambda: self.assertEqual(look.close(), 0))
        return look

    def until(self, look, **pieces):
        """Looks until each topic's line has its piece: brokers hear of a change one after the other. All notices but
        those of a topic that was not everywhere yet."""
        said, topics = [], {}

        def found():
            topics.update(look()[0])
            said.extend(look.notices)
            return all(piece in topics.get(name, "") for name, piece in pieces.items())

        wait_until(found, 20, f"{pieces}", every=0)
        return [n for n in said if "does not exist" not in n and "is there: publishing to it is tried now" not in n]

    def assert_said(self, notices, *pieces):
        for piece in pieces:
            self.assertTrue(any(piece in n for n in notices), f"{piece!r} is not in {notices}")
        self.assertEqual(len(notices), len(pieces), notices)


class Cluster(Story):
    """Three brokers, which make every topic that somebody asks for without saying that they must not."""

    options = ("--nodes", "3", "--conf", "auto.create.topics.enable=true")

    def test_what_is_there_is_found_with_its_configuration(self):
        self.kafka.create_topic("good", 6, 3, max_message_bytes=2000000, min_insync_replicas=2)
        notices = self.until(self.look("good"), good="fit partitions=6 replicas=3 "
                                                     "max_message_bytes=2000000 min_insync=2 compacted=0 ()")
        self.assertEqual(notices, [])

    def test_one_copy_is_warned_of(self):
        self.kafka.create_topic("alone", 2, 1)
        notices = self.until(self.look("alone"), alone="fit partitions=2 replicas=1 ")
        self.assert_said(notices, "warning: topic 'alone' has one replica in a cluster of 3 brokers")

    def test_a_confirm_by_one_replica_is_warned_of_and_the_command_mends_it(self):
        self.kafka.create_topic("hasty", 1, 3)
        look = self.look("hasty")
        notices = self.until(look, hasty="min_insync=1")
        self.assert_said(notices, "warning: topic 'hasty' confirms what one of its 3 replicas has")
        self.run_command(notices[0], "kafka-configs.sh", "ConfigCommand")
        self.assertEqual(self.until(look, hasty="min_insync=2"), [])

    def test_a_smaller_limit_is_said_and_the_command_raises_it(self):
        self.kafka.create_topic("small", 1, 3, max_message_bytes=5000, min_insync_replicas=2)
        look = self.look("small")
        notices = self.until(look, small="max_message_bytes=5000 ")
        self.assert_said(notices, "info: topic 'small' takes at most 5000 bytes")
        self.run_command(notices[0], "kafka-configs.sh", "ConfigCommand")
        self.assertEqual(self.until(look, small="max_message_bytes=2048576 "), [])

    def test_a_compacted_topic_is_warned_of(self):
        for name, policy in (("latest", "compact"), ("both", "compact,delete")):
            self.kafka.create_topic(name, 1, 3, cleanup_policy=policy, min_insync_replicas=2)
        notices = self.until(self.look("latest", "both"), latest="compacted=1", both="compacted=1")
        self.assert_said(notices, "warning: topic 'latest' is compacted", "warning: topic 'both' is compacted")

    def test_partitions_that_were_added_are_warned_of(self):
        self.kafka.create_topic("growing", 6, 3, min_insync_replicas=2)
        look = self.look("growing")
        self.assertEqual(self.until(look, growing="partitions=6 "), [])
        self.kafka.topics.add_partitions("growing", 12)
        self.assert_said(self.until(look, growing="partitions=12 "),
                         "warning: topic 'growing' has 12 partitions, and had 6")

    def test_a_missing_topic_is_not_made_by_looking_and_the_command_makes_it(self):
        look = self.look("later")
        topics, notices = look()
        self.assertEqual(topics["later"], "missing (Broker: Unknown topic or partition)")
        self.assert_said(notices, "warning: topic 'later' does not exist")
        command = notices[0]
        look()
        self.assertNotIn("later", self.kafka.topics.names())
        self.run_command(command, "kafka-topics.sh", "TopicCommand")
        self.until(look, later="fit partitions=")
        self.assertIn("info: topic 'later' is there: publishing to it is tried now", look.notices)

    def test_a_deleted_topic_is_not_made_again_by_looking(self):
        # By processes of their own: the library's administrator would ask for it again, and so make it.
        self.kafka.call("topic", "create", "brief", "1", "3", "min.insync.replicas=2")
        look = self.look("brief")
        self.until(look, brief="fit")
        self.kafka.call("topic", "delete", "brief")
        self.until(look, brief="missing")
        for _ in range(5):
            self.assertIn("missing", look()[0]["brief"])
        self.assertNotIn("brief", self.kafka.topics.names())

    def test_many_are_found_at_once(self):
        names = [f"many-{i:02}" for i in range(50)]
        self.kafka.create_topic(names[0], 1, 3, min_insync_replicas=2)
        topics, notices = self.look(*names)()
        self.assertEqual(len(topics), 50)
        self.assertEqual(sum(found.startswith("missing") for found in topics.values()), 49)
        self.assertEqual(len(notices), 49)

    def run_command(self, notice, script, tool):
        """What the notice tells an operator to do, as it stands there."""
        arguments = notice[notice.index(script) + len(script):].split()
        package = {"TopicCommand": "org.apache.kafka.tools", "ConfigCommand": "kafka.admin"}[tool]
        self.kafka.call("tool", f"{package}.{tool}", *arguments)


class Rights(Story):
    options = ("--sasl",)

    def mallory(self, *topics, **others):
        return self.look(*topics, properties={
            "bootstrap.servers": self.kafka.kafka_sasl_bootstrap, "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN", "sasl.username": "mallory", "sasl.password": "mallory-secret", **others})

    def test_rights_are_missing_until_the_command_gives_them(self):
        self.kafka.create_topic("closed")
        look = self.mallory("closed")
        topics, notices = look()
        self.assertEqual(topics["closed"], "refused (Broker: Topic authorization failed)")
        self.assert_said(notices, "warning: topic 'closed' may not be seen")
        self.allow(notices[0])
        topics, notices = look()
        self.assertIn("fit partitions=1 replicas=1 max_message_bytes=1048588", topics["closed"])
        self.assert_said(notices, "info: topic 'closed' is there: publishing to it is tried now")

    def test_without_the_right_to_see_the_configuration_it_is_fit_all_the_same(self):
        self.kafka.create_topic("veiled", 4)
        self.kafka.acl("--add", "--allow-principal", "User:mallory", "--operation", "Write", "--topic", "veiled")
        look = self.mallory("veiled")
        topics, notices = look()
        self.assertEqual(topics["veiled"], "fit partitions=4 replicas=1 (Broker: Topic authorization failed)")
        self.assert_said(notices, "info: the configuration of topic 'veiled' can't be read")
        self.allow(notices[0])
        topics, notices = look()
        self.assertIn("max_message_bytes=1048588", topics["veiled"])
        self.assertEqual(notices, [])

    def test_a_wrong_password_is_the_reason_and_does_not_show(self):
        topics, rest = self.mallory("any", **{"sasl.password": "not-the-secret"})()
        self.assertEqual(topics, {})
        self.assertIn("uthentication failed", rest[0])
        self.assertNotIn("not-the-secret", rest[0])

    def allow(self, notice):
        script = "kafka-acls.sh --bootstrap-server "
        arguments = notice[notice.index(script) + len(script):].replace("'", "").split()
        self.assertEqual(arguments[1:3], ["--command-config", "FILE"])
        self.kafka.acl(*arguments[3:])


if __name__ == "__main__":
    main()
