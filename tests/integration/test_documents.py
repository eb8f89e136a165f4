"""What README and the manuals show as a configuration is one. Needs no servers."""

import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import main, penstock

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def text(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as f:
        return f.read()


class Documents(unittest.TestCase):
    def accepted(self, configuration):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(configuration)
            f.flush()
            self.assertEqual(penstock("-c", f.name, "check"), (0, f"{f.name}: accepted, 0 errors, 0 warnings\n", ""))

    def test_the_configuration_of_the_readme_is_accepted(self):
        blocks = re.findall(r"^    connections:\n(?:(?:    .*)?\n)+", text("README"), re.M)
        self.assertEqual(len(blocks), 1)
        self.accepted(re.sub(r"^    ", "", blocks[0], flags=re.M))

    def test_the_configuration_of_the_manual_is_accepted(self):
        blocks = re.findall(r"^\.Bd -literal.*\n(connections:\n(?:[^.].*\n)+)", text("man", "penstock.yaml.5"), re.M)
        self.assertEqual(len(blocks), 1)
        self.accepted(blocks[0])

    def test_the_files_that_the_readme_names_exist(self):
        ours = re.sub(r"^\[\d+\]: http.*$", "", text("README"), flags=re.M)
        for path in set(re.findall(r"\b(?:tests|src|man|conf)/[\w./-]*\w", ours)):
            self.assertTrue(os.path.exists(os.path.join(TOP, path)), path)


if __name__ == "__main__":
    main()
