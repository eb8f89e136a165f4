"""status_requests: what 10,000 requests on the status socket cost a drain that runs meanwhile."""

import json
import os
import subprocess

from measure import BUILD, Measure
from penstock import RabbitMQ

ASK = os.path.join(BUILD, "tests", "bench", "ask")
REQUESTS = 10000
BYTES = 500
PART = 0.75


class StatusBench(Measure):
    def __init__(self, rows, rounds):
        super().__init__(rows, rounds, "bench-status", BYTES)
        self.rabbitmq = RabbitMQ(os.path.join(self.directory, "rabbitmq"))
        self.seconds = None     # that a drain takes

    def start(self):
        self.start_postgres()
        self.rabbitmq.start()
        self.rabbitmq.exchange("events")
        self.rabbitmq.queue("events", "events")

    def clean(self):
        self.rabbitmq.close()
        self.rabbitmq.clean()
        self.postgres.clean()

    def drain(self, asked):
        channel = self.rabbitmq.channel()
        channel.queue_purge("events")
        channel.close()
        configuration = self.configuration(self.db, {"rabbitmq": {"uri": self.rabbitmq.uri()}},
                                           {"exchange": "events", "routing_key": "{type}"})
        asker = []

        def begin(d):
            if asked:       # over a part of it, so that all of them fall into it
                asker.append(subprocess.Popen([ASK, d.socket, "/status", str(REQUESTS), str(self.seconds * PART)],
                                              stdout=subprocess.PIPE, text=True))
        figures = self.drain_penstock("asked" if asked else "quiet", configuration, self.db, begun=begin)
        if asked:
            told = json.loads(asker[0].communicate(timeout=60)[0])
            if told["answered"] != REQUESTS:
                raise RuntimeError(f"{told['answered']} of {REQUESTS} requests were answered")
            figures["asker_us"] = told["cpu_seconds"] * 1e6 / self.rows
        else:
            self.seconds = self.rows / figures["events_per_second"]
            figures["asker_us"] = 0.0
        return figures

    def run(self):
        f = self.in_turn("status requests", {"quiet": lambda: self.drain(False), "asked": lambda: self.drain(True)})["asked"]
        print(f"status requests: {REQUESTS} of them during a drain leave {f['ratio_events_per_second']:.3f} of its rate "
              f"(wanted at least 0.95), for {f['ratio_cpu_us']:.2f} times the CPU", flush=True)
