"""stories: runs the test files of a directory, says how long each test took, counts.

    stories.py DIRECTORY [PATTERN…]     only tests whose name contains one of the patterns

A story that hangs fails, and says where. Closing line as Check's: "Stories: n, Failures: n".
"""

import faulthandler
import os
import signal
import sys
import time
import unittest


# For one story, or the making and clearing away around it.
LIMIT = 300 * float(os.environ.get("PENSTOCK_TEST_PATIENCE", "1")) + float(os.environ.get("PENSTOCK_TORTURE_SECONDS", "0"))


class Hung(AssertionError):
    pass


def hang(*_):
    raise Hung(f"not done within {LIMIT:g} s")


def wind_up():
    """The alarm fails what hangs in Python. What hangs in a library is shown, and ended with the whole process."""
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    faulthandler.dump_traceback_later(LIMIT + 30, exit=True)


class Result(unittest.TextTestResult):
    def __init__(self, *arguments, **keys):
        super().__init__(*arguments, **keys)
        self.failed = set()
        self.began = 0.0

    def getDescription(self, test):
        return str(test.id()).replace("_", " ")

    def startTest(self, test):
        self.began = time.monotonic()
        wind_up()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        wind_up()

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
    signal.signal(signal.SIGALRM, hang)
    wind_up()
    suite = unittest.TestSuite(chosen(unittest.defaultTestLoader.discover(directory, "test_*.py"), patterns))
    result = unittest.TextTestRunner(resultclass=Result, verbosity=2).run(suite)
    print(f"Stories: {result.testsRun}, Failures: {len(result.failed)}", flush=True)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
