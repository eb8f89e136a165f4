"""What happens to databases: dumps, upgrades, older backups, tables that are not what they were. Nothing silent,
nothing guessed, and what was committed after the checkpoint and is still there arrives."""

import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, Database, Postgres, main, penstock, wait_until

STATEMENT = r"\b(?:GRANT|ALTER|CREATE INDEX|UPDATE|DROP)\b[^;]*;"


def numbers(first, last):
    return [str(i) for i in range(first, last + 1)]


class Hazard(Case):
    def rebase(self, d, *arguments, expect=0):
        code, out, err = penstock("rebase", "orders", *arguments, "-c", d.config_file)
        self.assertEqual(code, expect, out + err)
        return out + err

    def journal(self):
        return self.db.sql("SELECT forwarder, command, who, reason, before, after FROM penstock.journal")

    def paste(self, text):
        for statement in re.findall(STATEMENT, text):
            self.db.sql(statement)

    def commit_late_below_a_rebase(self):
        late = self.db.connect()
        late.cursor().execute("INSERT INTO event (id, type) VALUES ('late', 'a.b')")
        self.db.insert_many(10, streams=1)
        d = self.daemon_for()
        self.receive(10)
        self.assertEqual(d.stop(), 0)
        self.rebase(d, "--position", "1000", "--reason", "all of it was sent")
        late.commit()
        late.close()
        d.start()
        self.assertEqual(self.receive_ids(1), ["late"])


class Clusters(Hazard):
    """Servers of their own, which are stopped, copied and replaced."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bin = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]

    def setUp(self):
        super().setUp()
        self.postgres = self.cluster("first")
        self.db = self.database(self.postgres)
        self.db.create_event_table()

    def cluster(self, name, *options):
        p = Postgres(os.path.join(self.directory, name))
        self.addCleanup(p.clean)
        p.start(*options)
        return p

    def database(self, postgres):
        db = Database(postgres, "hazard")
        self.addCleanup(db.close)
        return db

    def as_server(self, *command, **keys):
        """As the user that the servers run as."""
        user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.getuid() == 0 else []
        done = subprocess.run([*user, *command], capture_output=True, text=True, cwd="/tmp", **keys)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    @staticmethod
    def data(postgres):
        with open(os.path.join(postgres.directory, "home")) as f:
            return os.path.join(f.read().strip(), "data")

    def configuration_of(self, db):
        c = self.configuration()
        c["connections"]["db"]["postgresql"]["conninfo"] = db.conninfo()
        return c

    def test_a_dump_that_was_restored_into_another_cluster(self):
        for _ in range(200):            # transaction ids that the other cluster has not reached
            self.db.sql("SELECT pg_current_xact_id()")
        self.db.insert_many(30, streams=1)
        d = self.daemon()
        self.receive(30)
        self.wait_saved(30)
        self.assertEqual(d.stop(), 0)
        self.db.insert_many(5, first=31, streams=1)

        dump = self.as_server("pg_dump", self.db.conninfo())
        other = self.database(self.cluster("other"))
        self.db = other
        subprocess.run(["psql", "-q", other.conninfo()], input=dump, text=True, check=True, capture_output=True)
        self.assertEqual(other.value("SELECT count(*) FROM event"), 35)

        d.write(self.configuration_of(other))
        d.start()
        reason = d.wait_state("refused")["reason"]
        self.assertIn("belongs to another cluster", reason)
        self.assertIn("penstock rebase orders --position N", reason)
        self.assertIn("transaction ids that this server has not reached", reason)
        self.assertIn("nothing was changed", self.rebase(d, "--position", "30", "--reason", "too early", expect=1))
        self.assertIn("not reached", self.rebase(d, "--upgraded", "--reason", "wrong", expect=1))
        self.assert_queue_empty()
        self.paste(reason)
        said = self.rebase(d, "--position", "30", "--reason", "restored the dump")
        self.assertIn('"position": 30', said)
        self.assertEqual(d.stop(), 0)
        other.insert_many(5, first=36, streams=1)
        d.start()
        self.assertEqual(self.receive_ids(10), numbers(31, 40))
        self.assert_queue_empty()
        ((forwarder, command, who, why, before, after),) = self.journal()
        self.assertEqual((forwarder, command, why), ("orders", "rebase", "restored the dump"))
        self.assertRegex(who, r".+@.+")
        self.assertNotEqual(before["system_identifier"], after["system_identifier"])
        self.assertEqual((before["position"], after["position"]), (30, 30))

    def test_pg_upgrade(self):
        self.upgrade()

    def test_pg_upgrade_in_mode_gaps(self):
        self.db.sql("ALTER TABLE event DROP xid")
        self.upgrade()

    def upgrade(self):
        self.db.insert_many(30, streams=1)
        d = self.daemon()
        self.receive(30)
        self.wait_saved(30)
        self.assertEqual(d.stop(), 0)
        late = self.db.connect()
        late.cursor().execute("INSERT INTO event (id, type) VALUES ('rolled back', 'a.b')")
        self.db.insert_many(5, first=31, streams=1)
        late.close()
        self.db.close()

        new = self.cluster("new")
        admin = new.connect("postgres")
        admin.autocommit = True
        admin.cursor().execute("DROP DATABASE shop")
        admin.close()
        for server in (self.postgres, new):
            server.stop()
        work = os.path.join(os.path.dirname(self.data(new)), "upgrade")
        self.as_server("mkdir", work)
        self.as_server("sh", "-c", f"cd {work} && {self.bin}/pg_upgrade -U penstock -b {self.bin} -B {self.bin} "
                       f"-d {self.data(self.postgres)} -D {self.data(new)} -s {work} -p 50432 -P 50433")
        new.start()
        self.db = db = Database.__new__(Database)
        db.postgres, db.name, db.connection = new, "hazard", None
        self.addCleanup(db.close)

        d.write(self.configuration_of(db))
        d.start()
        reason = d.wait_state("refused")["reason"]
        self.assertIn("penstock rebase orders --upgraded", reason)
        self.assertNotIn("not reached", reason)
        self.rebase(d, "--upgraded", "--reason", "to a newer version")
        self.assertEqual(d.stop(), 0)
        d.start()
        self.assertEqual(self.receive_ids(5), numbers(31, 35))
        self.assert_queue_empty()

    def backup(self):
        self.db.close()
        self.postgres.stop()
        self.as_server("cp", "-a", self.data(self.postgres), self.data(self.postgres) + ".backup")
        self.postgres.start()

    def restore(self):
        self.db.close()
        self.postgres.stop()
        shutil.rmtree(self.data(self.postgres))
        self.as_server("mv", self.data(self.postgres) + ".backup", self.data(self.postgres))
        self.postgres.start()

    def test_an_older_backup_under_a_running_daemon(self):
        self.db.insert_many(10, streams=1)
        d = self.daemon()
        self.receive(10)
        self.wait_saved(10)
        self.backup()
        for i in range(11, 31):         # sent, and then lost by the database
            self.db.insert(id=str(i), type="a.b", streamid="s0")
        self.receive(20)
        self.wait_saved(30)
        self.restore()
        # Their transaction ids and positions are given out again.
        for i in range(20):
            self.db.insert(id=f"new {i}", type="a.b", streamid="s0")
        self.assertEqual(self.receive_ids(20, seconds=30), [f"new {i}" for i in range(20)])
        self.assertTrue(d.alive())

    def test_a_checkpoint_that_is_newer_than_the_restored_server_is_ahead(self):
        self.db.insert_many(10, streams=1)
        d = self.daemon()
        self.receive(10)
        self.wait_saved(10)
        self.backup()
        for i in range(11, 31):
            self.db.insert(id=str(i), type="a.b", streamid="s0")
        self.receive(20)
        self.wait_saved(30)
        self.assertEqual(d.stop(), 0)
        cursor = self.db.value("SELECT cursor FROM penstock.checkpoint")
        self.restore()
        self.db.sql("UPDATE penstock.checkpoint SET cursor = %s, position = 30", cursor)
        self.db.insert(id="new", type="a.b", streamid="s0")
        d.start()
        f = d.wait_state("ahead")
        self.assertIn("penstock rebase orders --position N", f["resumes"])
        self.assertFalse(f["healthy"])
        self.assertIn("beyond", self.rebase(d, "--upgraded", "--reason", "wrong", expect=1))
        self.rebase(d, "--position", "10", "--reason", "restored")
        self.assertEqual(d.stop(), 0)
        d.start()
        self.assertEqual(self.receive_ids(1), ["new"])
        self.assert_queue_empty()


class Rebase(Hazard):
    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def test_it_is_refused_while_a_daemon_has_the_forwarder(self):
        self.db.insert_many(10, streams=1)
        d = self.daemon_for()
        self.wait_saved(10)
        before = self.db.checkpoint()
        self.assertRegex(self.rebase(d, "--position", "5", "--reason", "x", expect=1), r"a daemon has .*open \(backend \d+")
        self.assertEqual(self.db.checkpoint(), before)
        self.assertEqual(d.stop(), 0)
        self.rebase(d, "--position", "5", "--reason", "x")
        d.start()
        self.assertEqual(self.receive_ids(15), numbers(1, 10) + numbers(6, 10))

    def test_what_commits_later_at_a_lower_position_is_still_sent(self):
        self.commit_late_below_a_rebase()

    def test_an_instance_that_loaded_before_can_not_save_any_more(self):
        d = self.daemon_for()
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        before = self.db.checkpoint()
        self.rebase(d, "--position", "0", "--reason", "x")
        after = self.db.checkpoint()
        self.assertEqual(after["epoch"], before["epoch"] + 1)
        self.assertNotEqual(after["owner"], before["owner"])

    def test_without_a_checkpoint_there_is_nothing_to_rebase(self):
        d = self.daemon(start=False)
        self.db.sql(penstock("schema")[1])
        self.assertIn("there is no checkpoint", self.rebase(d, "--position", "0", "--reason", "x", expect=1))

    def test_without_our_tables_it_says_so(self):
        d = self.daemon(start=False)
        self.assertIn("penstock.checkpoint", self.rebase(d, "--position", "0", "--reason", "x", expect=1))

    def test_a_database_that_is_away_changes_nothing(self):
        d = self.daemon(self.configuration(db_port=1), start=False)
        self.assertIn("nothing was changed", self.rebase(d, "--position", "0", "--reason", "x", expect=1))

    def test_the_printed_rights_are_enough(self):
        role = f"rebaser_{Case.stories}"
        self.db.sql(penstock("schema", "--role", role)[1])
        self.db.sql(f"GRANT SELECT ON event TO {role}")
        c = self.configuration(checkpoint={"create": False})
        c["connections"]["db"]["postgresql"]["conninfo"] += f" user={role}"
        d = self.daemon(c)
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.rebase(d, "--position", "7", "--reason", "x")


class Altered:
    """Whichever mode: a payload goes out as what it is now, not as what its column was (G3)."""

    def test_a_payload_that_becomes_bytes_while_it_is_read(self):
        d = self.daemon_for()
        self.db.insert(id="1", type="a.b", data={"n": 1})
        self.receive(1)
        d.wait_state("idle")
        self.db.sql("ALTER TABLE event ALTER data TYPE bytea USING convert_to(data::text, 'UTF8')")
        self.db.insert(id="2", type="a.b", data=b"\xde\xad\xbe\xef", datacontenttype="application/octet-stream")
        self.assertEqual(self.receive(1)[0].body, b"\xde\xad\xbe\xef")
        d.wait_log("the event table is no longer what was looked at")

    def test_a_table_that_is_put_in_its_place_is_looked_at_again(self):
        d = self.daemon_for()
        self.db.insert(id="1", type="a.b")
        self.receive(1)
        d.wait_state("idle")
        self.db.sql("ALTER TABLE event RENAME TO old; CREATE TABLE event (LIKE old INCLUDING ALL)")
        self.db.insert(id="2", type="a.b")
        self.assertEqual(self.receive_ids(1), ["2"])
        d.wait_log("the event table is no longer what was looked at")


# Positions that are given out a second time, as many as before and more, so that what the sequence has reached says
# nothing. Rows that come with their commit: nobody sees the sequence in between.
GIVEN_OUT_AGAIN = {
    "truncated": "TRUNCATE event RESTART IDENTITY;",
    "made anew": "ALTER TABLE event RENAME TO old; CREATE TABLE event (LIKE old INCLUDING ALL EXCLUDING DEFAULTS);"
                 "DROP TABLE old; CREATE SEQUENCE event_position_seq OWNED BY event.position;"
                 "ALTER TABLE event ALTER position SET DEFAULT nextval('event_position_seq');{xid}",
    "restarted": "DELETE FROM event; ALTER SEQUENCE event_position_seq RESTART;",
    "another sequence": "DELETE FROM event; CREATE SEQUENCE other;"
                        "ALTER TABLE event ALTER position SET DEFAULT nextval('other');",
}


class Again:
    """Whichever mode: no row that stands where another one stood is passed over (G1)."""

    def give_out_again(self, how):
        xid = "ALTER TABLE event ALTER xid SET DEFAULT pg_current_xact_id();" if self.mode == "snapshot" else ""
        self.db.sql(GIVEN_OUT_AGAIN[how].format(xid=xid) +
                    """INSERT INTO event (id, source, type, recorded_at)
                    SELECT 'new ' || i, '/x', 'a.b', now() FROM generate_series(1, 100) s(i) ORDER BY i""")

    def sent(self, count=80):
        self.db.insert_many(count, streams=1)
        d = self.daemon_for()
        self.receive(count)
        self.wait_saved(count)
        return d

    def while_it_runs(self, how):
        d = self.sent()
        d.wait_state("idle")
        self.give_out_again(how)
        self.all_arrive(d)

    def while_it_is_stopped(self, how):
        d = self.sent()
        self.assertEqual(d.stop(), 0)
        self.give_out_again(how)
        self.all_arrive(d.start())

    def test_truncated_while_it_runs(self):
        self.while_it_runs("truncated")

    def test_truncated_while_it_is_stopped(self):
        self.while_it_is_stopped("truncated")

    def test_made_anew_while_it_runs(self):
        self.while_it_runs("made anew")

    def test_made_anew_while_it_is_stopped(self):
        self.while_it_is_stopped("made anew")

    def test_restarted_while_it_runs(self):
        self.while_it_runs("restarted")

    def test_restarted_while_it_is_stopped(self):
        self.while_it_is_stopped("restarted")

    def test_another_sequence_while_it_runs(self):
        self.while_it_runs("another sequence")

    def test_another_sequence_while_it_is_stopped(self):
        self.while_it_is_stopped("another sequence")


class Tables(Altered, Again, Hazard):
    mode = "snapshot"

    def all_arrive(self, d):
        self.assertEqual(self.receive_ids(100), [f"new {i}" for i in range(1, 101)])
        d.wait_state("idle")

    def setUp(self):
        super().setUp()
        self.db.create_event_table()

    def test_a_truncated_table_begins_anew(self):
        self.db.insert_many(20, streams=1)
        d = self.daemon_for()
        self.receive(20)
        self.wait_saved(20)
        self.db.sql("TRUNCATE event RESTART IDENTITY")
        self.db.insert_many(5, first=21, streams=1)
        self.assertEqual(self.receive_ids(5), numbers(21, 25))
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.db.sql("TRUNCATE event RESTART IDENTITY")
        self.db.insert_many(5, first=26, streams=1)
        d.start()
        self.assertEqual(self.receive_ids(5), numbers(26, 30))

    def test_a_table_that_was_dropped_and_made_anew_is_looked_at_again(self):
        self.db.insert_many(5, streams=1)
        d = self.daemon_for()
        self.receive(5)
        self.db.sql("DROP TABLE event")
        self.db.create_event_table()
        self.db.insert_many(5, first=6, streams=1)
        self.assertEqual(self.receive_ids(5), numbers(6, 10))
        # Another one, of the same form but for what would pass rows over.
        connection = self.db.connect()
        connection.cursor().execute("ALTER TABLE event RENAME TO old; CREATE TABLE event (LIKE old INCLUDING DEFAULTS);"
                                    "ALTER TABLE event ALTER xid DROP NOT NULL")
        connection.commit()
        connection.close()
        self.assertIn('column "xid" may be NULL', d.wait_state("refused")["reason"])

    def test_rows_without_a_transaction_id_are_not_passed_over(self):
        d = self.daemon_for()
        d.wait_state("idle")
        self.db.sql("ALTER TABLE event ALTER xid DROP NOT NULL; INSERT INTO event (id, type, xid) VALUES ('1', 'a.b', NULL)")
        self.assertIn('column "xid" may be NULL', d.wait_state("refused")["reason"])

    def test_a_wound_back_sequence_loses_nothing(self):
        self.db.insert_many(20, streams=1)
        self.daemon_for()
        self.receive(20)
        self.wait_saved(20)
        self.db.sql("DELETE FROM event WHERE position <= 10")
        self.db.sql("ALTER SEQUENCE event_position_seq RESTART WITH 1")
        self.db.insert_many(10, first=21, streams=1)
        self.assertEqual(self.receive_ids(10), numbers(21, 30))

    def test_int4_positions_that_wrap_lose_nothing(self):
        self.db.sql("""ALTER SEQUENCE event_position_seq AS integer CYCLE RESTART WITH 2147483640;
            ALTER TABLE event ALTER position TYPE int""")
        self.daemon_for()
        self.db.insert_many(5, streams=1)
        self.assertEqual(self.receive_ids(5), numbers(1, 5))
        self.db.insert_many(10, first=6, streams=1)
        self.assertEqual(sorted(map(int, self.receive_ids(10))), list(range(6, 16)))

    def test_a_mapped_column_that_changes_its_type_while_it_is_read(self):
        self.db.insert_many(5, streams=1)
        d = self.daemon_for()
        self.receive(5)
        self.wait_saved(5)
        self.db.sql("ALTER TABLE event ALTER streamversion TYPE text, ALTER streamid TYPE varchar(40), ALTER data TYPE text")
        self.db.insert(id="6", type="a.b", streamid="s0", streamversion="v7", data='{"n": 6}', datacontenttype="application/json")
        message = self.receive(1)[0]
        self.assertEqual((message.id, message.headers["cloudEvents_streamversion"], message.body), ("6", "v7", b'{"n": 6}'))
        self.db.sql("ALTER TABLE event ALTER data TYPE int USING 1")
        self.assertIn('column "data" of "event" is of type integer', d.wait_state("refused", seconds=20)["reason"])

    def test_a_mapped_column_that_is_dropped_while_it_is_read(self):
        self.db.insert_many(5, streams=1)
        d = self.daemon_for(source={"columns": {"subject": "subject"}})
        self.receive(5)
        self.db.sql("ALTER TABLE event DROP subject")
        self.assertIn('no column "subject"', d.wait_state("refused")["reason"])

    def test_a_column_that_was_not_there_is_used_once_it_was_looked_at_again(self):
        self.db.sql("ALTER TABLE event DROP subject")
        d = self.daemon_for()
        d.wait_state("idle")
        self.db.sql("ALTER TABLE event ADD subject text")
        self.db.insert(id="1", type="a.b", subject="before")
        self.assertNotIn("cloudEvents_subject", self.receive(1)[0].headers)
        self.assertEqual(d.stop(), 0)
        d.start()
        self.db.insert(id="2", type="a.b", subject="after")
        self.assertEqual(self.receive(1)[0].headers["cloudEvents_subject"], "after")

    def test_rows_deleted_before_they_were_read_are_gone_and_hold_nothing(self):
        self.db.insert_many(10, streams=1)
        d = self.daemon_for()
        self.receive(10)
        self.assertEqual(d.stop(), 0)
        self.db.insert_many(10, first=11, streams=1)
        self.db.sql("DELETE FROM event WHERE position BETWEEN 12 AND 15")
        d.start()
        self.assertEqual(self.receive_ids(6), ["11"] + numbers(16, 20))
        d.wait_state("idle")

    def test_times_that_no_event_can_have_hold_by_name_and_go_once_mended(self):
        cases = {"infinity": "is infinity", "-infinity": "is infinity", "0044-03-15 12:00:00 BC": "outside the years",
                 "10000-01-01": "outside the years"}
        for i, (time, word) in enumerate(cases.items()):
            self.db.insert(id=str(i), type="a.b", streamid=f"s{i}", time=time)
        self.db.insert(id="good", type="a.b", streamid="other", time="0001-01-01 00:00:00+00")
        d = self.daemon_for()
        self.assertEqual(self.receive_ids(1), ["good"])
        self.assertRegex(d.wait_state("held")["reason"], 'id 0.*infinity')
        for word in cases.values():
            d.wait_log(word)
        self.db.sql("UPDATE event SET time = '2026-01-01Z' WHERE id <> 'good'")
        self.assertEqual(d.stop(), 0)
        d.start()
        self.assertEqual(sorted(set(self.receive_ids(4)) - {"good"}), numbers(0, 3))

    def test_infinity_as_recorded_time_is_an_unknown_lag(self):
        self.db.insert(id="1", type="a.b", recorded_at="-infinity")
        self.db.insert(id="2", type="a.b", recorded_at="infinity")
        d = self.daemon_for()
        self.assertEqual(self.receive_ids(2), ["1", "2"])
        d.wait_state("idle")


class GapsTables(Altered, Again, Hazard):
    """The same for a table without a transaction-id column, where positions are all there is."""

    mode = "gaps"

    def setUp(self):
        super().setUp()
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event DROP xid")

    def all_arrive(self, d):
        """Which of them were sent can't be known: an operator says so, and nothing is sent before."""
        f = d.wait_state("ahead", seconds=20)
        self.assertIn("positions up to 80 may have been given out again", f["reason"])
        self.assertIn("penstock rebase orders --position N", f["resumes"])
        self.assertNotIn("setval", f["resumes"])
        self.assert_queue_empty()
        self.rebase(d, "--position", "0", "--reason", "they were")
        self.assertEqual(d.stop(), 0)
        d.start()
        self.assertEqual(self.receive_ids(100), [f"new {i}" for i in range(1, 101)])
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        d.start().wait_state("idle")        # and it is known by what it is now
        self.assert_queue_empty()

    def goes_on(self, *statements):
        d = self.sent()
        self.db.insert_many(5, first=81, streams=1)
        for statement in statements:
            self.db.sql(statement)
        self.db.insert_many(5, first=86, streams=1)
        self.assertEqual(self.receive_ids(10), numbers(81, 90))
        self.wait_saved(90)
        self.assertEqual(d.stop(), 0)
        for statement in statements:
            self.db.sql(statement)
        self.db.insert_many(5, first=91, streams=1)
        d.start()
        self.assertEqual(self.receive_ids(5), numbers(91, 95))
        d.wait_state("idle")
        self.assertNotIn("ahead", d.log())

    def test_a_table_that_is_written_anew_goes_on(self):
        self.goes_on("VACUUM FULL event", "CLUSTER event USING event_pkey", "REINDEX TABLE event")

    def test_a_sequence_that_changes_its_owner_and_name_goes_on(self):
        self.goes_on("ALTER SEQUENCE event_position_seq OWNED BY NONE", "ALTER SEQUENCE event_position_seq RENAME TO x",
                     "GRANT SELECT ON x TO public", "ALTER SEQUENCE x RENAME TO event_position_seq",
                     "ALTER SEQUENCE event_position_seq OWNED BY event.position")

    def test_a_sequence_that_was_only_altered_goes_on_with_the_cursor_it_has(self):
        """It looks like one that was started anew: an operator knows better."""
        d = self.sent()
        d.wait_state("idle")
        self.db.sql("ALTER SEQUENCE event_position_seq CACHE 2")
        self.db.insert_many(5, first=81, streams=1)
        f = d.wait_state("ahead", seconds=20)
        self.assertIn("penstock rebase orders --upgraded", f["resumes"])
        self.rebase(d, "--upgraded", "--reason", "a cache, no more")
        self.assertEqual(d.stop(), 0)
        d.start()
        self.assertEqual(self.receive_ids(5), numbers(81, 85))
        self.assert_queue_empty()

    def test_a_cursor_of_an_earlier_version_learns_what_it_is_of(self):
        """At once, before anything else is saved."""
        d = self.sent()
        self.assertEqual(d.stop(), 0)
        self.db.sql("UPDATE penstock.checkpoint SET cursor = (cursor::jsonb - 'table')::text")
        d.start()
        wait_until(lambda: '"table"' in self.db.checkpoint()["cursor"])
        d.wait_state("idle")
        self.give_out_again("truncated")
        self.all_arrive(d)

    def test_without_a_sequence_the_table_itself_is_known(self):
        self.db.sql("ALTER TABLE event ALTER position DROP DEFAULT")
        self.db.sql("INSERT INTO event (position, id, type) SELECT i, i::text, 'a.b' FROM generate_series(1, 80) s(i)")
        d = self.daemon_for()
        self.receive(80)
        self.wait_saved(80)
        self.db.sql("""ALTER TABLE event RENAME TO old; CREATE TABLE event (LIKE old INCLUDING ALL);
            INSERT INTO event (position, id, type) SELECT i, 'new ' || i, 'a.b' FROM generate_series(1, 100) s(i)""")
        self.all_arrive(d)

    def test_a_truncated_table_whose_sequence_goes_on(self):
        self.db.insert_many(20, streams=1)
        d = self.daemon_for()
        self.receive(20)
        self.wait_saved(20)
        self.db.sql("TRUNCATE event")
        self.db.insert_many(5, first=21, streams=1)
        self.assertEqual(self.receive_ids(5), numbers(21, 25))
        d.wait_state("idle")

    def test_a_sequence_that_is_wound_back_is_ahead_and_goes_on_after_rebase(self):
        self.db.insert_many(20, streams=1)
        d = self.daemon_for()
        self.receive(20)
        self.wait_saved(20)
        self.db.sql("TRUNCATE event RESTART IDENTITY")
        self.db.insert_many(5, first=21, streams=1)
        self.assertIn("penstock rebase orders --position N", d.wait_state("ahead", seconds=20)["resumes"])
        self.assert_queue_empty()
        self.rebase(d, "--position", "0", "--reason", "truncated")
        self.assertEqual(d.stop(), 0)
        d.start()
        self.assertEqual(self.receive_ids(5), numbers(21, 25))
        self.assert_queue_empty()

    def test_a_table_that_was_dropped_and_made_anew_is_ahead(self):
        self.db.insert_many(20, streams=1)
        d = self.daemon_for()
        self.receive(20)
        self.wait_saved(20)
        self.db.sql("DROP TABLE event")
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event DROP xid")
        self.db.insert_many(5, first=21, streams=1)
        d.wait_state("ahead", seconds=20)
        self.rebase(d, "--position", "0", "--reason", "a new table")
        self.assertEqual(d.stop(), 0)
        d.start()
        self.assertEqual(self.receive_ids(5), numbers(21, 25))

    def test_rows_deleted_before_they_were_read_hold_nothing(self):
        self.db.insert_many(10, streams=1)
        d = self.daemon_for()
        self.receive(10)
        self.assertEqual(d.stop(), 0)
        self.db.insert_many(10, first=11, streams=1)
        self.db.sql("DELETE FROM event WHERE position BETWEEN 12 AND 15")
        d.start()
        self.assertEqual(self.receive_ids(6), ["11"] + numbers(16, 20))
        d.wait_state("idle", seconds=20)

    def test_what_commits_later_below_a_rebased_position_is_still_sent(self):
        self.commit_late_below_a_rebase()
        self.db.insert(id="next", type="a.b")
        self.assertEqual(self.receive_ids(1), ["next"])
        self.assert_queue_empty()

    def test_a_start_at_a_position_reads_what_commits_later_below_it(self):
        late = self.db.connect()
        late.cursor().execute("INSERT INTO event (id, type) VALUES ('late', 'a.b')")
        self.db.insert_many(10, streams=1)
        self.daemon_for(source={"start": {"position": 9}})
        self.assertEqual(self.receive_ids(3), numbers(8, 10))
        late.commit()
        late.close()
        self.assertEqual(self.receive_ids(1), ["late"])
        self.assert_queue_empty()

    def test_rebase_is_how_a_forwarder_changes_its_mode(self):
        self.db.insert_many(10, streams=1)
        d = self.daemon_for()
        self.receive(10)
        self.assertEqual(d.stop(), 0)
        self.db.sql(penstock("schema", "--event-table", "event", "--existing")[1])
        self.rebase(d, "--position", "10", "--reason", "to mode snapshot")
        self.assertEqual(self.db.value("SELECT count(*) FROM penstock.gap"), 0)
        self.db.insert_many(5, first=11, streams=1)
        d.start()
        self.assertEqual(self.receive_ids(5), numbers(11, 15))
        self.assertEqual(d.status()["source"]["mode"], "snapshot")


class Partitions(Hazard):
    def setUp(self):
        super().setUp()
        self.db.sql("""
            CREATE TABLE event (position bigserial, id text, source text DEFAULT '/x', type text DEFAULT 'a.b', streamid text,
                streamversion bigint, data jsonb, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
                PRIMARY KEY (position)) PARTITION BY RANGE (position);
            CREATE INDEX ON event (xid, position);
            CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM (1) TO (101);
            CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM (101) TO (201)""")

    def test_detached_and_dropped_partitions(self):
        self.db.insert_many(120, streams=1)
        d = self.daemon_for()
        self.receive(120)
        self.wait_saved(120)
        self.db.sql("ALTER TABLE event DETACH PARTITION event_1")
        self.db.insert_many(10, first=121, streams=1)
        self.assertEqual(self.receive_ids(10), numbers(121, 130))
        self.db.sql("DROP TABLE event_1")
        self.db.sql("CREATE TABLE event_3 PARTITION OF event FOR VALUES FROM (201) TO (301)")
        self.db.insert_many(100, first=131, streams=1)
        self.assertEqual(self.receive_ids(100), numbers(131, 230))
        d.wait_state("idle")
        self.assertEqual(d.status()["counts"]["reconnects"], 0)

    def test_a_partition_that_is_detached_concurrently_while_it_is_read(self):
        self.db.insert_many(150, streams=150)
        d = self.daemon_for(window={"events": 10})
        self.receive(20)
        connection = self.db.connect()
        connection.autocommit = True
        connection.cursor().execute("ALTER TABLE event DETACH PARTITION event_2 CONCURRENTLY")
        connection.close()
        wait_until(lambda: d.status()["state"] == "idle", 20)
        got = {m.id for m in self.rabbitmq.take(self.queue)}
        self.assertLessEqual(set(numbers(21, 100)), got)        # what is still there came


if __name__ == "__main__":
    main()
