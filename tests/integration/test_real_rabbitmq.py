"""The C program of the RabbitMQ sink, against a broker of its own, without a daemon."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import ROOT, main


class Programs(unittest.TestCase):
    def test_the_sink_keeps_its_contract_and_lives_through_what_a_broker_does(self):
        name = "tests/integration/test_rabbitmq_sink"
        subprocess.run(["make", "-s", os.path.join("build", name)], cwd=ROOT, check=True)
        done = subprocess.run([os.path.join(ROOT, "build", name)], cwd=ROOT, capture_output=True, text=True)
        print(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    main()
