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

    def drain(self, path=None):
        channel = self.rabbitmq.channel()
        channel.queue_purge("events")
        channel.close()
        configuration = self.configuration(self.db, {"rabbitmq": {"uri": self.rabbitmq.uri()}},
                                           {"exchange": "events", "routing_key": "{type}"})
        asker = []

        def begin(d):
            if path:        # over a part of it, so that all of them fall into it
                asker.append(subprocess.Popen([ASK, d.socket, path, str(REQUESTS), str(self.seconds * PART)],
                                              stdout=subprocess.PIPE, text=True))
        figures = self.drain_penstock(path.strip("/") if path else "quiet", configuration, self.db, begun=begin)
        if path:
            words = asker[0].communicate(timeout=60)[0]
            if asker[0].returncode != 0:
                raise RuntimeError(f"{path} was not always answered by 200: is the machine so busy that the drain ended first?")
            told = json.loads(words)
            if told["answered"] != REQUESTS:
                raise RuntimeError(f"{told['answered']} of {REQUESTS} requests were answered")
            figures["asker_us"] = told["cpu_seconds"] * 1e6 / self.rows
        else:
            self.seconds = self.rows / figures["events_per_second"]
            figures["asker_us"] = 0.0
        return figures

    def run(self):
        all_of_them = self.in_turn("status requests", {"quiet": self.drain, "health": lambda: self.drain("/health"),
                                                       "status": lambda: self.drain("/status")})
        each = self.rows / REQUESTS
        for path in ("health", "status"):
            f = all_of_them[path]
            ours, clients = (f["cpu_us"] - all_of_them["quiet"]["cpu_us"]) * each, f["asker_us"] * each
            print(f"status requests: {REQUESTS} of /{path} during a drain leave {f['ratio_events_per_second']:.3f} of its rate "
                  f"(wanted at least 0.95 of /status); CPU of each: {ours:.0f} µs of the daemon's, {clients:.0f} µs of the client's",
                  flush=True)
