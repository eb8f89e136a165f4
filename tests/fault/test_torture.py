"""RabbitMQ and what its users do to it, with everything of tests/fault/torture.py beside it."""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), HERE]
from penstock import Case, Proxy, main
from torture import Torture

ROOM = 1000             # of the queue that rejects more than that


class RabbitMQ(Torture, Case):
    def prepare_broker(self):
        self.second = self.bound_queue("second", x_max_length=ROOM, x_overflow="reject-publish")
        self.rabbitmq.unbind(self.queue, self.exchange)
        for key in ("order.*", "user.*"):
            self.rabbitmq.bind(self.queue, self.exchange, key)
        self.to_all = {"exchange": self.exchange, "routing_key": "{type}"}
        self.to_copies = {"exchange": self.second, "routing_key": "{type}"}
        return Proxy("127.0.0.1", self.rabbitmq.amqp_port)

    def broker_connection(self, port=None):
        return {"rabbitmq": {"uri": self.rabbitmq.uri(port), "heartbeat": "2s"}}

    def drain(self):
        self.main.add(self.rabbitmq.take(self.queue), self.now)
        self.copies.add([m for m in self.rabbitmq.take(self.second) if m.body != b"filler"], self.now)

    def restart_broker(self):
        self.rabbitmq.restart()

    def kill_broker(self):
        self.rabbitmq.kill()
        self.rabbitmq.start()

    def memory_alarm(self):
        self.rabbitmq.ctl("set_vm_memory_high_watermark", "absolute", "1MB")
        time.sleep(2 + self.rng.random())
        self.rabbitmq.ctl("set_vm_memory_high_watermark", "0.8")

    def full_queue(self):
        channel = self.rabbitmq.channel()
        for _ in range(ROOM):
            channel.basic_publish("", self.second, b"filler")
        channel.close()
        time.sleep(2)
        self.drain()

    def missing_binding(self):
        self.rabbitmq.unbind(self.queue, self.exchange, "user.*")
        time.sleep(2)
        self.rabbitmq.bind(self.queue, self.exchange, "user.*")

    FAILURES = Torture.FAILURES + [restart_broker, kill_broker, memory_alarm, full_queue, missing_binding]


class RabbitMQFromGaps(RabbitMQ):
    mode = "gaps"


if __name__ == "__main__":
    main()
