"""machine: tests/systemd/machine for stories: a machine that Penstock is installed on"""

import http.client
import json
import os
import re
import subprocess

from penstock import BUILD, ROOT, UnixHTTPConnection, wait_until

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "machine")
UNIT = "penstockd.service"
DROP_INS = f"/etc/systemd/system/{UNIT}.d"


class Machine:
    def __init__(self, directory):
        self.directory = directory

    def _call(self, verb, *arguments):
        # Output to a file of its own: systemd keeps the descriptors that it is started with.
        done = subprocess.run([SCRIPT, verb, self.directory, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"machine {verb}: {done.stderr.strip()}")
        return done.stdout.strip()

    def start(self, *binds):
        self._call("start", *binds)
        self.pid = int(self._call("pid"))

    def clean(self):
        self._call("clean")

    def run(self, *command, check=True, input=None, seconds=60):
        """(exit status, standard output, standard error) of a command in it; as root."""
        done = subprocess.run([SCRIPT, "run", self.directory, *command], input=input or "", capture_output=True, text=True,
                              timeout=seconds)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.returncode, done.stdout, done.stderr

    def out(self, *command):
        return self.run(*command)[1].strip()

    def path(self, path):
        """That file, as it is seen from here."""
        return f"/proc/{self.pid}/root{path}"

    def write(self, path, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(self.path(path), mode)

    # Penstock. --------------------------------------------------------------------------

    def install(self):
        """As the README has it."""
        self.run("make", "-C", ROOT, f"BUILD={BUILD}", "install", seconds=300)
        self.run("sh", "-c", "systemd-sysusers && systemd-tmpfiles --create && journalctl --update-catalog && "
                             "systemctl daemon-reload")

    def systemctl(self, *arguments, check=True):
        return self.run("systemctl", *arguments, check=check)

    def show(self, name):
        """A property of the unit."""
        return self.out("systemctl", "show", "--value", "-p", name, UNIT)

    def main_pid(self):
        """Of the daemon, by its number in the machine; 0: it doesn't run."""
        return int(self.show("MainPID"))

    def signal(self, name):
        self.systemctl("kill", "--kill-whom=main", f"--signal={name}", UNIT)

    def drop_in(self, name, *lines):
        """Further lines of [Service]; none: the drop-in goes."""
        if lines:
            self.write(f"{DROP_INS}/{name}.conf", "[Service]\n" + "".join(f"{line}\n" for line in lines))
        elif os.path.exists(self.path(f"{DROP_INS}/{name}.conf")):
            os.unlink(self.path(f"{DROP_INS}/{name}.conf"))
        self.systemctl("daemon-reload")

    def configure(self, configuration, name="penstock.yaml"):
        """A dictionary is written as JSON, which is YAML too. tmpfiles.d says who may read it."""
        if not isinstance(configuration, str):
            configuration = json.dumps(configuration, indent=1)
        self.write(f"/etc/penstock/{name}", configuration, 0o600)
        self.run("systemd-tmpfiles", "--create", "penstock.conf")

    def journal(self, *arguments):
        return self.out("journalctl", "-u", UNIT, "--no-pager", *arguments)

    def entries(self, *matches):
        """Of the journal, with all their fields."""
        return [json.loads(line) for line in self.journal("-o", "json", *matches).splitlines()]

    def wait_journal(self, pattern, *arguments, seconds=10):
        try:
            return wait_until(lambda: re.search(pattern, self.journal(*arguments)), seconds, every=0.1)
        except AssertionError:
            raise AssertionError(f"not in the journal within {seconds} s: {pattern}\n{self.journal(*arguments)[-3000:]}") from None

    def status(self, forwarder="orders"):
        """What the status socket tells of it; None while nobody answers."""
        connection = UnixHTTPConnection(self.path("/run/penstock/status.sock"))
        try:
            connection.request("GET", f"/status/{forwarder}")
            answer = connection.getresponse()
            return json.loads(answer.read()) if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def wait_state(self, *states, forwarder="orders", seconds=15):
        last = {}

        def reached():
            last["status"] = self.status(forwarder)
            return last["status"] if last["status"] and last["status"]["state"] in states else None
        try:
            return wait_until(reached, seconds, every=0.05)
        except AssertionError:
            raise AssertionError(f"{forwarder} not {' or '.join(states)}: {json.dumps(last['status'])}\n"
                                 f"{self.journal()[-3000:]}") from None
