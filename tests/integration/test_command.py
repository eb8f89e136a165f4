"""The operator's command: exit statuses, where it prints what, terminals, pipes. Needs no servers."""

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import PENSTOCK, ROOT, Penstockd, main, penstock, wait_until

LATER = ("resolve", "parked", "redrive", "seek", "replay")


def configuration(**keys):
    return {
        "connections": {"db": {"postgresql": {"conninfo": "host=/nonexistent dbname=shop"}}, "out": {"null": {}}},
        "forwarders": {"orders": {"source": {"connection": "db", "table": "event"}, "sink": {"connection": "out"},
                                  "rules": [{"name": "all", "to": {}}]}},
        **keys,
    }


class Command(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="pc-")
        self.addCleanup(shutil.rmtree, self.directory, True)

    def daemon(self, start=True, **keys):
        """Its database is away: it says so, and stays."""
        d = Penstockd(self.directory, configuration(**keys))
        self.addCleanup(d.done)
        if start:
            d.start()
            d.wait_state("disconnected")
        return d

    def peer(self, answer):
        """A socket on which whoever asks gets these bytes."""
        path = tempfile.mktemp(dir=self.directory)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(4)

        def serve():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.recv(4096)
                    client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(listener.close)
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)
        return path

    def on_terminal(self, *arguments, columns=80, environment=None):
        """What it writes to a terminal of that width."""
        master, slave = pty.openpty()
        subprocess.run(["stty", "columns", str(columns)], stdin=slave, check=True)
        environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "", **(environment or {})}
        done = subprocess.run([PENSTOCK, *arguments], stdin=slave, stdout=slave, env=environment, timeout=60)
        os.close(slave)
        text = b""
        try:
            while part := os.read(master, 65536):
                text += part
        except OSError:     # the other end is closed
            pass
        os.close(master)
        return done.returncode, text.decode().replace("\r\n", "\n")


class Usage(Command):
    def refused(self, words, *arguments):
        code, out, err = penstock(*arguments)
        self.assertEqual((code, out), (64, ""), arguments)
        self.assertIn(words, err)

    def test_wrong_usage_ends_with_64_and_says_why(self):
        self.refused("a command is missing")
        self.refused("no command 'statsu'", "statsu")
        self.refused("--help", "--bogus")
        self.refused("--help", "status", "-s")
        self.refused("--role does not belong to 'status'", "status", "--role", "r")
        self.refused("--json does not belong to 'config'", "config", "--json")
        self.refused("too many words", "status", "one", "two")
        self.refused("too many words", "check", "one")
        self.refused("--existing needs --event-table", "schema", "--existing")
        self.refused("--event-table", "schema", "--event-table", 'a."b')
        self.refused("--listen needs --event-table", "schema", "--listen", "c")
        self.refused("--only wants event-table, tables, role or listen", "schema", "--only", "lists")
        self.refused("--only listen needs --listen", "schema", "--only", "listen", "--event-table", "e")
        self.refused("--only event-table needs --event-table", "schema", "--only", "event-table")
        self.refused("name is missing", "rebase", "--position", "1", "--reason", "x")
        self.refused("--reason TEXT is missing", "rebase", "orders", "--position", "1")
        self.refused("--position N or --upgraded", "rebase", "orders", "--reason", "x")
        self.refused("--position N or --upgraded", "rebase", "orders", "--reason", "x", "--position", "1", "--upgraded")
        for wrong in ("", "x", "-1", "1.5", "9223372036854775807", "9223372036854775808"):
            self.refused("a whole number is expected", "rebase", "orders", "--reason", "x", "--position", wrong)

    def test_what_comes_later_is_refused_with_that_word(self):
        for command in LATER:
            self.refused("not in this version", command, "orders")
        self.refused("one of them", "status", "--watch", "--json")
        self.refused("needs a terminal", "status", "--watch")
        self.refused("not in this version", "config", "--expand")
        self.refused("not in this version", "schema", "--layout", "x")

    def test_help_has_an_example_for_each_command(self):
        code, out, _ = penstock("--help")
        self.assertEqual(code, 0)
        for command in ("status", "pause", "resume", "skip", "check", "config", "schema", "rebase"):
            self.assertRegex(out, rf"(?m)^  {command} ")
            code, help_text, _ = penstock(command, "--help")
            self.assertEqual(code, 0)
            self.assertRegex(help_text, rf"(?m)^  penstock {command}")
        for command in LATER:
            self.assertNotRegex(out, rf"(?m)^  {command} ")

    def test_version(self):
        self.assertRegex(penstock("--version")[1], r"\Apenstock \d+\.\d+\.\d+\n\Z")

    def test_a_full_disk_is_no_success(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PENSTOCK, "schema"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


class Status(Command):
    def test_the_socket_comes_from_the_option_the_configuration_or_is_the_standard_one(self):
        d = self.daemon()
        for arguments in (("-s", d.socket, "status"), ("status", "-c", d.config_file),
                          ("status", f"--socket={d.socket}")):
            code, out, err = penstock(*arguments)
            self.assertEqual(code, 0, err)
            self.assertRegex(out, r"\norders +disconnected +")
        broken = os.path.join(self.directory, "broken.yaml")
        with open(broken, "w") as f:
            f.write("forwarders: [")
        code, _, err = penstock("status", "-c", broken)
        self.assertIn("/run/penstock/status.sock", err)
        self.assertIn(code, (0, 1, 69))     # whether a Penstock of this machine answers there

    def test_one_forwarder_is_shown_whole(self):
        d = self.daemon()
        code, out, err = penstock("status", "orders", "-s", d.socket)
        self.assertEqual((code, err), (0, ""))
        for label in ("reason", "resumes", "source", "sink", "checkpoint", "lag", "window", "counts", "lease"):
            self.assertRegex(out, rf"(?m)^  {label} +\S")

    def test_json_is_the_daemons_document(self):
        d = self.daemon()
        all_of_it = json.loads(penstock("status", "--json", "-s", d.socket)[1])
        self.assertEqual([f["name"] for f in all_of_it["forwarders"]], ["orders"])
        self.assertEqual(set(all_of_it), {"version", "instance", "place", "started", "configuration", "healthy", "forwarders"})
        one = json.loads(penstock("status", "orders", "--json", "-s", d.socket)[1])
        self.assertEqual(set(one), set(all_of_it["forwarders"][0]))

    def test_what_is_not_healthy_ends_with_1(self):
        d = self.daemon(health={"max_age": "1s"})
        wait_until(lambda: d.get("/health")[0] == 503, what="a database that stays away is noticed")
        for arguments in (["status"], ["status", "orders"], ["status", "--json"]):
            self.assertEqual(penstock(*arguments, "-s", d.socket)[0], 1)
        code, health = d.get("/health")
        self.assertEqual((code, health["unhealthy"][0]["name"]), (503, "orders"))

    def test_a_forwarder_that_there_is_not_ends_with_1(self):
        d = self.daemon()
        code, out, err = penstock("status", "no body/?", "-s", d.socket)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("no forwarder 'no body/?'", err)

    def test_a_daemon_that_is_not_there_ends_with_69(self):
        d = self.daemon()
        d.kill()
        code, out, err = penstock("status", "-s", d.socket)
        self.assertEqual((code, out), (69, ""))
        self.assertIn("is penstockd running?", err)
        d.start()       # takes the place that the killed one left behind
        d.wait_state("disconnected")
        self.assertEqual(d.stop(), 0)
        self.assertFalse(os.path.exists(d.socket))
        self.assertEqual(penstock("status", "-s", d.socket)[0], 69)

    def test_whatever_else_answers_ends_with_69(self):
        head = b"HTTP/1.1 200 OK\r\n\r\n"
        for answer in (b"", b"hello\n", head, head + b"[]", head + b"{\"a\":", b"HTTP/1.1 503 No\r\n\r\n{}"):
            with self.subTest(answer):
                code, out, err = penstock("status", "-s", self.peer(answer))
                self.assertEqual((code, out), (69, ""))
                self.assertTrue(err.startswith("penstock: "), err)

    def test_colors_are_for_terminals_only(self):
        d = self.daemon()
        arguments = ("status", "-s", d.socket)
        self.assertNotIn("\033", penstock(*arguments)[1])
        self.assertIn("\033[33mdisconnected\033[0m", self.on_terminal(*arguments)[1])
        self.assertNotIn("\033", self.on_terminal(*arguments, environment={"NO_COLOR": "1"})[1])
        self.assertNotIn("\033", self.on_terminal(*arguments, environment={"TERM": "dumb"})[1])

    def test_lines_fit_the_terminal_and_are_whole_in_a_pipe(self):
        d = self.daemon()
        arguments = ("status", "-s", d.socket)
        _, out = self.on_terminal(*arguments, columns=90)
        for line in out.splitlines():
            self.assertLessEqual(len(re.sub(r"\033\[[0-9]*m", "", line)), 90)
        self.assertTrue(out.endswith("…\n"), out)
        self.assertIn("/nonexistent", penstock(*arguments)[1])


class Watch(Command):
    def setUp(self):
        super().setUp()
        self.text = ""

    def watch(self, *arguments, rows=24, columns=100, environment=None):
        """Running on a terminal of that size."""
        self.master, slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        subprocess.run(["stty", "rows", str(rows), "columns", str(columns)], stdin=slave, check=True)
        self.before = termios.tcgetattr(slave)
        self.addCleanup(os.close, slave)
        self.slave = slave
        environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "", **(environment or {})}
        process = subprocess.Popen([PENSTOCK, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment,
                                   preexec_fn=os.setsid)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def shows(self, pattern):
        """The terminal got it, since the last time."""
        def found():
            while select.select([self.master], [], [], 0)[0]:
                self.text += os.read(self.master, 65536).decode()
            return re.search(pattern, self.text)
        wait_until(found, 10, f"{pattern} on the terminal: {self.text[-2000:]!r}")
        self.text = ""

    def ends_well(self, process):
        self.assertEqual(process.wait(10), 0)
        self.shows(re.escape("\033[?25h\033[?1049l"))       # the cursor and the first screen are back
        self.assertEqual(termios.tcgetattr(self.slave), self.before)

    def test_it_refreshes_until_q(self):
        d = self.daemon()
        process = self.watch("status", "--watch", "-s", d.socket)
        self.shows(re.escape("\033[?1049h\033[?25l"))
        for _ in range(3):
            self.shows(r"(?s)\033\[H.*healthy.*orders .*disconnected.*\033\[J")
        os.write(self.master, b"q")
        self.ends_well(process)

    def test_signals_leave_the_terminal_as_it_was(self):
        d = self.daemon()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.watch("status", "orders", "--watch", "-s", d.socket)
            self.shows(r"counts +read 0")
            process.send_signal(number)
            self.ends_well(process)

    def test_a_daemon_that_goes_away_is_said_and_waited_for(self):
        d = self.daemon()
        process = self.watch("status", "--watch", "-s", d.socket)
        self.shows("disconnected")
        d.kill()
        self.shows("is penstockd running")
        d.start()
        self.shows("disconnected")
        os.write(self.master, b"q")
        self.ends_well(process)

    def test_a_small_terminal_does_not_scroll(self):
        d = self.daemon()
        process = self.watch("status", "orders", "--watch", "-s", d.socket, rows=5, columns=40)
        self.shows(r"(?s)\033\[H(?:[^\n]*\n){4}\033\[J")
        os.write(self.master, b"q")
        self.ends_well(process)

    def test_a_terminal_that_cannot_be_written_over_is_refused(self):
        self.assertEqual(self.watch("status", "--watch", environment={"TERM": "dumb"}).wait(10), 64)
        self.shows("needs a terminal")


class Completion(Command):
    FILES = os.path.join(ROOT, "conf", "completion")

    def bash(self, *words):
        script = f"source {self.FILES}/penstock.bash; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _penstock; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def fish(self, line):
        environment = {**os.environ, "HOME": self.directory, "PATH": os.path.dirname(PENSTOCK) + ":" + os.environ["PATH"]}
        done = subprocess.run(["fish", "-N", "-c", f"source {self.FILES}/penstock.fish; complete -C '{line}'"], capture_output=True,
                              text=True, check=True, env=environment)
        return [row.split("\t")[0] for row in done.stdout.splitlines()]

    def test_bash_completes_commands_options_and_forwarders(self):
        d = self.daemon()
        self.assertEqual(self.bash(PENSTOCK, "sta"), ["status"])
        self.assertEqual(self.bash(PENSTOCK, "-s", d.socket, "status", ""), ["orders"])
        self.assertEqual(self.bash(PENSTOCK, "status", "--w"), ["--watch"])
        self.assertEqual(self.bash(PENSTOCK, "schema", "--role", ""), [])
        self.assertIn("schema", self.bash(PENSTOCK, ""))

    def test_fish_completes_commands_and_options(self):
        self.assertEqual(self.fish("penstock sta"), ["status"])
        self.assertEqual(self.fish("penstock status --w"), ["--watch"])
        self.assertNotIn("--watch", self.fish("penstock check --"))

    def test_zsh_takes_the_file(self):
        subprocess.run(["zsh", "-n", f"{self.FILES}/_penstock"], check=True)


class Configuration(Command):
    def test_findings_are_on_standard_output_and_a_refusal_ends_with_1(self):
        d = self.daemon(start=False)
        code, out, err = penstock("check", "-c", d.config_file)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("accepted, 0 errors", out)
        d.write(configuration(bogus=1))
        code, out, err = penstock("check", "-c", d.config_file)
        self.assertEqual((code, err), (1, ""))
        self.assertRegex(out, rf"(?m)^{re.escape(d.config_file)}:\d+:\d+: error: .*bogus")
        self.assertIn("refused, 1 error,", out)

    def test_check_is_json_on_demand(self):
        d = self.daemon(start=False)
        self.assertEqual(json.loads(penstock("check", "--json", "-c", d.config_file)[1]),
                         {"file": d.config_file, "accepted": True, "findings": []})
        d.write(configuration(bogus=1))
        code, out, _ = penstock("check", "--json", "-c", d.config_file)
        self.assertEqual(code, 1)
        found = json.loads(out)
        self.assertFalse(found["accepted"])
        self.assertEqual([f["level"] for f in found["findings"]], ["error"])
        self.assertIn("bogus", found["findings"][0]["text"])

    def test_a_file_that_is_not_there_is_a_finding(self):
        code, out, _ = penstock("check", "-c", "/nonexistent/penstock.yaml")
        self.assertEqual(code, 1)
        self.assertIn("/nonexistent/penstock.yaml", out)

    def test_config_keeps_standard_output_clean(self):
        d = self.daemon(start=False)
        d.write(configuration(bogus=1))
        code, out, err = penstock("config", "-c", d.config_file)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("bogus", err)

    def test_schema_takes_its_name_from_the_configuration(self):
        d = self.daemon(start=False, checkpoint={"schema": "elsewhere"})
        code, out, err = penstock("schema", "-c", d.config_file, "--role", "bob")
        self.assertEqual((code, err), (0, ""))
        self.assertIn('"elsewhere".checkpoint', out)
        self.assertIn('"bob"', out)
        d.write(configuration(bogus=1))
        code, out, err = penstock("schema", "-c", d.config_file)
        self.assertEqual(code, 0)
        self.assertIn('"penstock".checkpoint', out)
        self.assertIn("is refused", err)

    def test_an_event_table_is_made_or_mended(self):
        fresh = penstock("schema", "--event-table", "shop.event")[1]
        self.assertIn('CREATE TABLE IF NOT EXISTS "shop"."event"', fresh)
        existing = penstock("schema", "--event-table", "shop.event", "--existing")[1]
        self.assertIn('ALTER TABLE "shop"."event"', existing)
        self.assertNotIn('CREATE TABLE IF NOT EXISTS "shop"."event"', existing)

    def test_one_part_of_the_schema_is_printed_alone_and_all_of_them_are_the_whole(self):
        arguments = ("schema", "--event-table", "shop.event", "--role", "r", "--listen", "woken")
        parts = [penstock(*arguments, "--only", part)[1] for part in ("event-table", "tables", "role", "listen")]
        self.assertEqual("".join(parts), penstock(*arguments)[1])
        for part, word in zip(parts, ('CREATE TABLE IF NOT EXISTS "shop"."event"', ".checkpoint (", "CREATE ROLE", "CREATE TRIGGER")):
            self.assertEqual([word in p for p in parts], [p is part for p in parts])


if __name__ == "__main__":
    main()
