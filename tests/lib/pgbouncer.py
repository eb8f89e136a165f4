"""pgbouncer: a private PgBouncer in front of a private PostgreSQL."""

import os
import signal
import socket
import subprocess
import tempfile
import time


class PgBouncer:
    """Listens on a free port of 127.0.0.1. As root it runs as user postgres."""

    def __init__(self, postgres, pool_mode, **settings):
        self.postgres = postgres
        self.directory = tempfile.mkdtemp(prefix="pk-bouncer-")
        os.chmod(self.directory, 0o755)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.settings = {"pool_mode": pool_mode, "default_pool_size": 10, **settings}
        self.ini = os.path.join(self.directory, "pgbouncer.ini")
        self.write()
        self.start()

    def start(self):
        user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.getuid() == 0 else []
        self.log = open(os.path.join(self.directory, "log"), "ab")
        self.process = subprocess.Popen([*user, "pgbouncer", self.ini], stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log)
        self._wait()

    def write(self, **settings):
        self.settings.update(settings)
        users = os.path.join(self.directory, "users")
        with open(users, "w", encoding="utf-8") as f:
            f.write('"penstock" ""\n')
        with open(self.ini, "w", encoding="utf-8") as f:
            f.write(f"[databases]\n* = host={self.postgres.pghost} port={self.postgres.pgport}\n[pgbouncer]\n"
                    f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\nauth_type = trust\n"
                    f"auth_file = {users}\nignore_startup_parameters = extra_float_digits\n"
                    + "".join(f"{name} = {value}\n" for name, value in self.settings.items()))

    def reload(self, **settings):
        self.write(**settings)
        self.process.send_signal(signal.SIGHUP)

    def _wait(self):
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"pgbouncer does not listen, see {self.log.name}")

    def conninfo(self, database):
        return f"host=127.0.0.1 port={self.port} user=penstock dbname={database}"

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
