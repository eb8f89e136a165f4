"""A real standby: refused while it is one, followed when it is promoted, also when it has lost the tail."""

import glob
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, Database, Postgres, main, stays, wait_until


def numbers(first, last):
    return [str(i) for i in range(first, last + 1)]


class Failover(Case):
    def setUp(self):
        super().setUp()
        self.bin = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.primary = self.server_called("primary")
        self.db = Database(self.primary, "shop_events")
        self.addCleanup(self.db.close)
        self.db.create_event_table()

    def server_called(self, name):
        p = Postgres(os.path.join(self.directory, name))
        self.addCleanup(p.clean)
        p.start()
        return p

    def as_server(self, *command):
        user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.getuid() == 0 else []
        done = subprocess.run([*user, *command], capture_output=True, text=True, cwd="/tmp")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @staticmethod
    def data(postgres):
        with open(os.path.join(postgres.directory, "home")) as f:
            return os.path.join(f.read().strip(), "data")

    def standby(self):
        """Streams from the primary, and has come as far as it."""
        s = self.server_called("standby")
        s.stop()
        data = self.data(s)
        shutil.rmtree(data)
        self.as_server(f"{self.bin}/pg_basebackup", "-D", data, "-R", "-c", "fast", "-d",
                       f"host={self.primary.pghost} port={self.primary.pgport} user=penstock")
        with open(os.path.join(data, "postgresql.conf"), "a", encoding="utf-8") as f:
            f.write(f"port = {s.pgport}\nunix_socket_directories = '{s.pghost}'\n")
        s.start()
        self.caught_up()
        return s

    def caught_up(self):
        wait_until(lambda: self.db.value("SELECT bool_and(replay_lsn >= pg_current_wal_lsn()) FROM pg_stat_replication"), 20,
                   "the standby has replayed all")

    def cut_off(self, standby):
        """Nothing arrives there any more."""
        admin = standby.connect("postgres")
        admin.autocommit = True
        admin.cursor().execute("ALTER SYSTEM SET primary_conninfo = ''")
        admin.cursor().execute("SELECT pg_reload_conf()")
        admin.close()
        wait_until(lambda: self.db.value("SELECT count(*) FROM pg_stat_replication") == 0)

    @staticmethod
    def signal(pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:      # a backend whose client has just gone
                pass

    def promote(self, standby):
        self.as_server(f"{self.bin}/pg_ctl", "promote", "-w", "-D", self.data(standby))
        self.db.close()
        self.db.postgres = standby

    def configuration_for(self, *servers, **more):
        c = self.configuration()
        c["connections"]["db"]["postgresql"] = {
            "conninfo": f"host={','.join(s.pghost for s in servers)} port={','.join(s.pgport for s in servers)} user=penstock "
                        f"dbname={self.db.name}" + "".join(f" {k}={v}" for k, v in more.items()),
            "connect_timeout": "2s"}
        return c

    def test_a_standby_is_no_server_to_read_from(self):
        self.db.insert_many(5, streams=1)
        s = self.standby()
        d = self.daemon(self.configuration_for(s))
        self.assertRegex(d.wait_state("disconnected")["reason"], "read-only|recovery|standby")
        self.assertEqual(d.stop(), 0)
        d.write(self.configuration_for(s, target_session_attrs="any"))
        d.start()
        self.assertIn("in recovery", d.wait_state("refused")["reason"])
        self.assert_queue_empty()

    def test_of_several_hosts_the_primary_is_found_and_a_promoted_standby_followed(self):
        s = self.standby()
        d = self.daemon(self.configuration_for(s, self.primary))
        self.db.insert_many(20, streams=1)
        self.receive(20)
        self.wait_saved(20)
        late = self.db.connect()
        late.cursor().execute("INSERT INTO event (id, type, streamid) VALUES ('gone with the primary', 'a.b', 'l')")
        self.db.insert_many(5, first=21, streams=1)
        self.receive(5)
        self.wait_saved(25)
        self.caught_up()
        self.db.close()
        self.primary.kill()
        d.wait_state("disconnected")
        self.promote(s)
        self.db.insert_many(20, first=26, streams=1)
        ids = self.receive_ids(20, seconds=30)
        self.assertEqual(ids, numbers(26, 45))
        self.wait_saved(self.db.value("SELECT max(position) FROM event"), seconds=20)
        self.assert_queue_empty()
        self.assertTrue(d.alive())

    def check_lost_tail(self, running):
        self.db.insert_many(10, streams=1)
        s = self.standby()
        d = self.daemon(self.configuration_for(self.primary, s))
        self.receive(10)
        self.wait_saved(10)
        self.caught_up()
        self.cut_off(s)
        for i in range(11, 41):                 # sent, saved, and lost with the primary
            self.db.insert(id=str(i), type="a.b", streamid="s0")
        self.receive(30)
        self.wait_saved(40)
        if not running:
            self.assertEqual(d.stop(), 0)
        self.db.close()
        self.primary.kill()
        self.promote(s)
        # The new primary gives transaction ids and positions out again that the checkpoint has passed on the old one.
        for i in range(30):
            self.db.insert(id=f"new {i}", type="a.b", streamid="s0")
        if not running:
            d.start()
        ids = self.receive_ids(30, seconds=30)
        # Of events that are still there some may come again, none is passed over.
        self.assertEqual([i for i in ids if i.startswith("new")], [f"new {i}" for i in range(30)])

    def test_a_promotion_that_lost_the_tail_under_a_running_daemon(self):
        self.check_lost_tail(running=True)

    def test_a_promotion_that_lost_the_tail_while_it_was_stopped(self):
        self.check_lost_tail(running=False)

    def test_in_mode_gaps_too(self):
        self.db.sql("ALTER TABLE event DROP xid")
        self.check_lost_tail(running=True)

    def test_an_old_primary_that_comes_back_is_not_gone_back_to_while_the_new_one_answers(self):
        s = self.standby()
        d = self.daemon(self.configuration_for(s, self.primary))
        self.db.insert_many(5, streams=1)
        self.receive(5)
        self.wait_saved(5)
        self.caught_up()
        self.db.close()
        self.primary.kill()
        self.promote(s)
        self.db.insert(id="6", type="a.b")
        self.assertEqual(self.receive_ids(1, seconds=30), ["6"])
        reconnects = d.status()["counts"]["reconnects"]
        self.primary.start()
        stays(lambda: d.status()["counts"]["reconnects"] == reconnects, 1.5)
        self.db.insert(id="7", type="a.b")
        self.assertEqual(self.receive_ids(1), ["7"])

    def test_a_frozen_primary_is_given_up_for_the_promoted_one(self):
        s = self.standby()
        c = self.configuration_for(self.primary, s)
        c["connections"]["db"]["postgresql"]["statement_timeout"] = "2s"
        d = self.daemon(c)
        self.db.insert_many(5, streams=1)
        self.receive(5)
        self.wait_saved(5)
        self.caught_up()
        self.db.close()
        with open(os.path.join(self.primary.directory, "home")) as f:
            home = f.read().strip()
        with open(os.path.join(home, "postgres.pid")) as f:
            postmaster = int(f.read().split()[0])
        pids = [postmaster] + [int(p) for p in subprocess.run(["ps", "-o", "pid=", "--ppid", str(postmaster)],
                                                              capture_output=True, text=True).stdout.split()]
        self.signal(pids, signal.SIGSTOP)
        self.addCleanup(self.signal, pids, signal.SIGCONT)
        self.promote(s)
        self.db.insert(id="6", type="a.b")
        self.assertEqual(self.receive_ids(1, seconds=40), ["6"])
        self.assertTrue(d.alive())


if __name__ == "__main__":
    main()
