"""stories: runs the test files of a directory, says how long each test took, counts.

    stories.py DIRECTORY [PATTERN…]     only tests whose name contains one of the patterns

Closing line as Check's: "Stories: n, Failures: n".
"""

import os
import sys
import time
import unittest


class Result(unittest.TextTestResult):
    def __init__(self, *arguments, **keys):
        super().__init__(*arguments, **keys)
        self.failed = set()
        self.began = 0.0

    def getDescription(self, test):
        return str(test.id()).replace("_", " ")

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        unittest.TestResult.addSuccess(self, test)
        self.stream.writeln(f"ok ({time.monotonic() - self.began:.1f} s)")
        self.stream.flush()

    def addFailure(self, test, err):
        self.failed.add(test.id())
        super().addFailure(test, err)

    def addError(self, test, err):
        self.failed.add(test.id())
        super().addError(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.failed.add(test.id())
        super().addSubTest(test, subtest, err)


def chosen(suite, patterns):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from chosen(test, patterns)
        elif not patterns or any(p in test.id() for p in patterns):
            yield test


def main():
    directory, patterns = sys.argv[1], sys.argv[2:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.stderr.reconfigure(line_buffering=True)
    suite = unittest.TestSuite(chosen(unittest.defaultTestLoader.discover(directory, "test_*.py"), patterns))
    result = unittest.TextTestRunner(resultclass=Result, verbosity=2).run(suite)
    print(f"Stories: {result.testsRun}, Failures: {len(result.failed)}", flush=True)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
