"""The start-up report: all that is wrong in one run, each with the statement that mends it; then it goes on by itself."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, Proxy, main, penstock, wait_until

STATEMENT = r"\b(?:GRANT|ALTER|CREATE INDEX|UPDATE|DROP)\b[^;]*;"


class Claiming(Proxy):
    """A server that says it is another version."""

    def _forward(self, source, sink, pair):
        if source is not pair[1]:
            super()._forward(source, sink, pair)
            return

        class Changed:
            def sendall(self, data):
                sink.sendall(re.sub(rb"(server_version\x00)\d\d\.", rb"\g<1>12.", data))
        super()._forward(source, Changed(), pair)


class Report(Case):
    def paste(self, text):
        """Runs every statement in it, as an operator would."""
        statements = re.findall(STATEMENT, text)
        self.assertTrue(statements, text)
        for statement in statements:
            self.db.sql(statement)
        return statements

    def configuration_for(self, role, **source):
        c = self.configuration({"orders": self.forwarder(source)}, checkpoint={"create": False})
        c["connections"]["db"]["postgresql"]["conninfo"] += f" user={role}"
        return c

    def role(self):
        role = f"role_{Case.stories}_{self.db.name[1:4]}".replace("_", "x")
        self.db.sql(f"CREATE ROLE {role} LOGIN")
        return role


class Everything(Report):
    def test_all_findings_come_in_one_run_and_their_statements_work(self):
        role = self.role()
        self.db.sql(penstock("schema")[1])
        self.db.sql("""CREATE SCHEMA shop;
            CREATE TABLE shop.event (position bigint, id text, source text DEFAULT '/s', type text DEFAULT 'a.b', streamid text);
            INSERT INTO shop.event SELECT i, i, '/s', 'a.b', 's' FROM generate_series(1, 20) i;
            ALTER TABLE shop.event ENABLE ROW LEVEL SECURITY""")
        d = self.daemon(self.configuration_for(role, table="shop.event", mode="snapshot"))
        reason = d.wait_state("refused")["reason"]
        for word in ("may not read and write", "may not use the schema", "row-level security", "no transaction-id column",
                     "may be NULL", "neither unique nor from a sequence", "may not read \"shop\"", "no index on \"position\""):
            self.assertIn(word, reason)
        for line in reason.splitlines():
            d.wait_log(re.escape(line))         # a line of its own in the log, too
        self.paste(reason)
        self.assertEqual(self.receive_ids(20, seconds=45), [str(i) for i in range(1, 21)])
        self.assertNotIn("warning", d.log().split("refused -> ")[1])

    def test_a_table_with_nothing_to_mend_is_not_worth_a_word(self):
        role = self.role()
        self.db.sql(penstock("schema", "--role", role, "--event-table", "public.event")[1])
        d = self.daemon(self.configuration_for(role))
        d.wait_state("idle")
        self.assertNotIn("event table", d.log())

    def test_a_report_that_is_too_long_for_the_reason_is_whole_in_the_log(self):
        self.db.sql("CREATE TABLE event (data int, extensions int, xid int, position text)")
        columns = {name: f"no_such_column_for_{name}_{'x' * 20}" for name in
                   ("subject", "time", "datacontenttype", "dataschema", "stream_id", "stream_version", "recorded")}
        columns["extensions"] = {f"ext{i}": f"nor_for_this_{i}_{'y' * 40}" for i in range(20)}
        d = self.daemon_for(source={"columns": columns})
        reason = d.wait_state("refused")["reason"]
        self.assertRegex(reason, r"\n\(\d+ more findings stand in the log\)$")
        code, table, _ = penstock("status", "-s", d.socket)
        self.assertEqual((code, len(table.splitlines())), (1, 2), table)
        _, one, _ = penstock("status", "orders", "-s", d.socket)
        self.assertIn("more findings stand in the log", one)
        for name in list(columns.values())[:7] + list(columns["extensions"].values()):
            d.wait_log(re.escape(name))

    def test_the_checkpoints_cluster_is_in_the_same_report(self):
        self.db.create_event_table()
        d = self.daemon_for()
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.db.sql("""UPDATE penstock.checkpoint SET system_identifier = '7000000000000000000';
            ALTER TABLE event DROP xid""")
        d.write(self.configuration({"orders": self.forwarder(source={"mode": "snapshot"})}))
        d.start()
        reason = d.wait_state("refused")["reason"]
        self.assertIn("belongs to another cluster", reason)
        self.assertIn("no transaction-id column", reason)


class Cursor(Report):
    def test_a_warning_does_not_hide_why_it_is_refused(self):
        self.db.create_event_table()
        d = self.daemon_for()
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.db.sql("DROP INDEX event_xid_position_idx; UPDATE penstock.checkpoint SET cursor = 'nothing like it'")
        d.start()
        reason = d.wait_state("refused")["reason"]
        self.assertIn("nothing like it", reason)
        self.assertIn("no index", reason)


class Gaps(Report):
    """What only mode gaps depends on: the sequence."""

    def table(self):
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event DROP xid")

    def test_what_can_not_be_proven_is_warned_of(self):
        self.table()
        self.db.sql("ALTER SEQUENCE event_position_seq CACHE 20")
        d = self.daemon_for()
        self.assertIn("hands out 20 positions at once", d.wait_log(".*CACHE 1;").group(0))
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.paste(d.wait_log("ALTER SEQUENCE.*").group(0))
        self.db.sql("ALTER TABLE event ALTER position DROP DEFAULT")
        d.start()
        d.wait_log("does not default to the next value of a sequence")

    def test_a_sequence_that_goes_back_is_refused(self):
        self.table()
        self.db.sql("ALTER SEQUENCE event_position_seq CYCLE")
        self.db.insert_many(5, streams=1)
        d = self.daemon_for()
        self.paste(d.wait_state("refused")["reason"])
        self.assertEqual(d.stop(), 0)
        d.start()
        self.assertEqual(self.receive_ids(5), [str(i) for i in range(1, 6)])
        self.assertEqual(d.stop(), 0)
        self.db.sql("ALTER SEQUENCE event_position_seq INCREMENT -1 MINVALUE -100")
        d.start()
        self.assertIn("counts downward", d.wait_state("refused")["reason"])

    def test_the_right_to_read_the_sequence_is_asked_for(self):
        self.table()
        role = self.role()
        self.db.sql(penstock("schema", "--role", role)[1])
        self.db.sql(f"GRANT SELECT ON event TO {role}")
        self.db.insert_many(5, streams=1)
        d = self.daemon(self.configuration_for(role))
        reason = d.wait_state("refused")["reason"]
        self.assertIn(f'GRANT SELECT ON SEQUENCE public.event_position_seq TO "{role}";', reason)
        self.paste(reason)
        self.assertEqual(d.stop(), 0)
        d.start()
        self.receive(5)

    def test_an_index_on_the_position_is_enough(self):
        self.table()
        self.db.sql("ALTER TABLE event DROP CONSTRAINT event_pkey")
        d = self.daemon_for()
        self.assertEqual(len(self.paste(d.wait_log('no index on "position".*').group(0))), 1)
        self.assertEqual(d.stop(), 0)
        before = len(d.log())
        d.start()
        d.wait_state("idle")
        self.assertNotIn("no index", d.log()[before:])

    def test_in_mode_snapshot_the_sequence_is_not_worth_a_word(self):
        self.db.create_event_table()
        self.db.sql("ALTER SEQUENCE event_position_seq CACHE 20 CYCLE")
        d = self.daemon_for()
        d.wait_state("idle")
        self.assertNotIn("event_position_seq", d.log())


class Server(Report):
    def test_a_server_that_is_too_old_is_refused(self):
        self.db.create_event_table()
        proxy = Claiming("127.0.0.1", self.postgres.pgport)
        self.addCleanup(proxy.close)
        d = self.daemon(self.configuration(db_port=proxy.port))
        self.assertIn("is PostgreSQL 12; needed is 13", d.wait_state("refused")["reason"])


class Indexes(Report):
    def test_an_index_that_does_not_serve_is_warned_of(self):
        self.db.create_event_table()
        self.db.sql("DROP INDEX event_xid_position_idx; CREATE INDEX ON event (position, xid)")
        d = self.daemon_for()
        self.paste(d.wait_log("no index on .*").group(0))
        d.stop()
        before = len(d.log())
        d.start()
        d.wait_state("idle")
        self.assertNotIn("no index", d.log()[before:])

    def test_an_index_that_was_not_finished_is_none(self):
        self.db.create_event_table()
        self.db.sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'event_xid_position_idx'::regclass")
        d = self.daemon_for()
        self.paste(d.wait_log("no index on .*").group(0))


if __name__ == "__main__":
    main()
