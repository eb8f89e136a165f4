"""The C programs of this directory: source and checkpoint against a real PostgreSQL, without a daemon."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import ROOT, Postgres, main


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.postgres = Postgres(tempfile.mkdtemp(prefix="penstock-real-"))
        cls.addClassCleanup(cls.postgres.clean)
        cls.postgres.start()
        settings = dict(line.split("=", 1) for line in cls.postgres.call("env").split())
        cls.environment = {**os.environ, **settings}

    def run_program(self, name):
        program = os.path.join("build/tests/integration", name)
        subprocess.run(["make", "-s", program], cwd=ROOT, check=True)
        done = subprocess.run([os.path.join(ROOT, program)], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_tables_are_inspected_opened_and_read(self):
        self.run_program("test_source")

    def test_concurrent_writers_lose_nothing(self):
        self.run_program("test_tail")

    def test_every_mode_keeps_the_contract(self):
        self.run_program("test_source_contract")

    def test_both_modes_and_a_naive_one_beside_them_lose_what_they_lose(self):
        print("\n" + self.run_program("test_oracle"))

    def test_the_checkpoint_row_is_made_saved_and_refused(self):
        self.run_program("test_checkpoint_row")


if __name__ == "__main__":
    main()
