"""The start-up report: all that is wrong in one run, each with the statement that mends it; then it goes on by itself."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, Proxy, main, penstock, wait_until

# A function's body holds statements of its own.
STATEMENT = r"\b(?:GRANT|ALTER|CREATE|UPDATE|DROP|SELECT)\b(?:\$penstock\$.*?\$penstock\$|[^;])*?;"


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
            d.wait_log(re.escape(line.removeprefix("warning: ")))   # a line of its own in the log, too
        self.paste(reason)
        self.assertEqual(self.receive_ids(20, seconds=45), [str(i) for i in range(1, 21)])
        self.assertNotIn("warning", d.log().split("refused -> ")[1])

    def test_a_warning_does_not_pass_for_what_refuses(self):
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event ALTER id DROP NOT NULL, ADD about uuid; DROP INDEX event_xid_position_idx")
        d = self.daemon_for(source={"columns": {"dataschema": "about", "subject": "nowhere"}})
        lines = d.wait_state("refused")["reason"].splitlines()
        told = [line.startswith("warning: ") for line in lines]
        self.assertEqual(told, [False, False, True, True], lines)
        self.assertIn("nowhere", "".join(lines[:2]))
        self.assertIn("dataschema", "".join(lines[:2]))
        for line in lines:
            level = "warning" if line.startswith("warning: ") else "error"
            d.wait_log(f"{level} orders: event table event: {re.escape(line.removeprefix('warning: '))}")

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


class Columns(Report):
    """What is taken as ready is not held at the first row."""

    # An option's column, its type, a value, and whether it suits.
    TYPES = [
        ("id", "integer", "7", True), ("id", "numeric", "7", True), ("id", "citext", "7", True), ("id", "mood", "fine", True),
        ("source", "uuid", "123e4567-e89b-12d3-a456-426614174000", True), ("source", "timestamptz", "2026-01-02", False),
        ("source", "jsonb", '"/s"', False), ("type", "integer", "7", True), ("subject", "jsonb", "{}", True),
        ("time", "date", "2026-01-02", True), ("time", "timestamp", "2026-01-02 03:04:05", True), ("time", "text", "2026-01-02T03:04:05Z", True),
        ("time", "bigint", "1767323045", False), ("time", "time", "03:04:05", False), ("time", "jsonb", '"2026-01-02T03:04:05Z"', False),
        ("datacontenttype", "mood", "text/plain", True), ("datacontenttype", "integer", "1", False),
        ("dataschema", "uuid", "123e4567-e89b-12d3-a456-426614174000", False), ("dataschema", "bytea", "abc", False),
        ("stream_id", "bytea", "abc", True), ("stream_id", "boolean", "true", True), ("stream_version", "numeric", "1.5", True),
        ("data", "xml", "<a/>", True), ("data", "char(5)", "abc", True), ("data", "integer", "1", False),
        ("recordedtime", "timestamptz", "2026-01-02", True), ("recordedtime", "date", "2026-01-02", False),
        ("sampledrate", "integer", "1", True), ("sampledrate", "boolean", "true", False), ("partitionkey", "inet", "10.0.0.1", True),
        ("recordedtime", "jsonb", '"2026-01-02T03:04:05Z"', True), ("mapped", "money", "1", True),
    ]

    def table_with(self, n, option, type, value):
        self.db.create_event_table(f"event{n}", data="text")
        self.db.sql(f"""ALTER TABLE event{n} DROP recorded_at, ADD c {type};
            INSERT INTO event{n} (type, datacontenttype, c) VALUES ('a.b', 'text/plain', %s)""", value)
        extension = option in ("recordedtime", "sampledrate", "partitionkey", "mapped")
        return {"table": f"event{n}", "columns": {"extensions": {option: "c"}} if extension else {option: "c"}}

    def test_a_type_is_refused_exactly_if_no_value_of_it_becomes_an_event(self):
        self.db.sql("CREATE EXTENSION IF NOT EXISTS citext; CREATE TYPE mood AS ENUM ('fine', 'text/plain')")
        forwarders = {f"f{n}": self.forwarder(source=self.table_with(n, *case[:3])) for n, case in enumerate(self.TYPES)}
        d = self.daemon(self.configuration(forwarders))
        self.receive(sum(suits for *_, suits in self.TYPES))
        for n, (option, type, _, suits) in enumerate(self.TYPES):
            with self.subTest(f"{option} {type}"):
                f = d.wait_state("idle" if suits else "refused", forwarder=f"f{n}")
                if suits:
                    self.wait_saved(1, f"f{n}")
                    self.assertNotRegex(d.log(), f"f{n}: event table event{n}: .* no event can be made")
                else:
                    self.assertRegex(f["reason"], rf'^column "c" of "event{n}" is of type \w+')

    def test_what_may_be_null_and_is_needed_is_warned_of(self):
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event ALTER id DROP NOT NULL, ALTER source DROP NOT NULL, ALTER type DROP NOT NULL")
        d = self.daemon_for()
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        warnings = re.findall(r"warning orders: event table event: (column .*)", d.log())
        self.assertEqual(len(warnings), 3, d.log())
        for warning in warnings:
            self.paste(warning)
        before = len(d.log())
        d.start()
        d.wait_state("idle")
        self.assertNotIn("warning orders", d.log()[before:])
        self.assertEqual(d.stop(), 0)
        self.db.sql("ALTER TABLE event ALTER source DROP NOT NULL, ALTER type DROP NOT NULL")
        before = len(d.log())
        d.write(self.configuration({"orders": self.forwarder({"columns": {"source": {"value": "/s"}, "type": {"value": "t"}}})}))
        d.start()
        d.wait_state("idle")
        self.assertNotIn("warning orders", d.log()[before:])

    def test_text_wants_a_content_type(self):
        self.db.create_event_table(data="text")
        d = self.daemon_for()
        d.wait_log('warning orders: event table event: column "data" of "event" is text, and column "datacontenttype" may be NULL')
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.db.sql("ALTER TABLE event DROP datacontenttype")
        before = len(d.log())
        d.start()
        reason = d.wait_state("refused")["reason"]
        self.assertIn("default_text_type", reason)
        self.assertEqual(d.stop(), 0)
        d.write(self.configuration({"orders": self.forwarder({"default_text_type": "text/plain"})}))
        d.start().wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.paste(reason)
        d.write(self.configuration({"orders": self.forwarder()}))
        before = len(d.log())
        d.start().wait_state("idle")
        self.assertNotIn("warning orders", d.log()[before:])

    def test_a_recorded_column_that_is_no_time_is_warned_of(self):
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event ALTER recorded_at DROP DEFAULT, ALTER recorded_at TYPE text")
        d = self.daemon_for()
        d.wait_log('warning orders: event table event: column "recorded_at" of "event" is of type text, by which lag is not counted')
        d.wait_state("idle")


class Views(Report):
    def reason(self, table):
        d = self.daemon_for(source={"table": table})
        reason = d.wait_state("refused")["reason"]
        self.assertEqual(d.stop(), 0)
        return reason

    def test_what_is_no_table_is_told_what_works_and_nothing_else(self):
        self.db.create_event_table()
        self.db.sql("""CREATE VIEW v AS SELECT * FROM event; CREATE MATERIALIZED VIEW m AS SELECT * FROM event;
            CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER away FOREIGN DATA WRAPPER nothing;
            CREATE FOREIGN TABLE f (position bigint, id text) SERVER away""")
        for table, words in (("v", '"v" is a view, .* (it reads public.event)'),
                             ("m", '"m" is a materialized view, .* (it reads public.event)'),
                             ("f", '"f" is a foreign table, .*name that server as the connection')):
            with self.subTest(table):
                reason = self.reason(table)
                self.assertRegex(reason, "^" + words.replace("(it", r"\(it").replace("event)", r"event\)"))
                self.assertEqual(len(reason.splitlines()), 1, reason)
                self.assertNotIn("ALTER", reason)


class Mends(Report):
    """Every statement that is printed is whole, and mends what it is printed for."""

    COLUMNS = """source text NOT NULL DEFAULT '/s', type text NOT NULL DEFAULT 'a.b', datacontenttype text NOT NULL DEFAULT 'text/plain'"""
    TABLES = {
        "names": """CREATE SCHEMA "a 'b""; CREATE TABLE "a 'b""."t""'x" ("P""os" int, id text, {COLUMNS}, data text)""",
        "types": """CREATE TABLE t (position text, id text, {COLUMNS}, xid xid DEFAULT '5', extensions text, data int);
            INSERT INTO t (position, id, extensions, data) VALUES ('1', '1', '{{"a": 1}}', 5)""",
        "partitions": """CREATE TABLE t (position bigint, id text, {COLUMNS}) PARTITION BY HASH (id);
            CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0); INSERT INTO t (position, id) VALUES (5, '1')""",
        "defaults": """CREATE TABLE t (position bigserial PRIMARY KEY, id text, {COLUMNS}, xid bigint)""",
    }
    NAMES = {"names": {"table": '"a \'b"."t""\'x"', "columns": {"position": 'P"os'}}}

    def test_all_of_them_mend(self):
        for name, sql in self.TABLES.items():
            for mode in ("snapshot", "gaps"):
                with self.subTest(f"{name} {mode}"):
                    self.db.sql('DROP TABLE IF EXISTS t CASCADE; DROP SCHEMA IF EXISTS "a \'b" CASCADE; '
                                "DROP SCHEMA IF EXISTS penstock CASCADE; DROP SEQUENCE IF EXISTS penstock_position")
                    source = {"table": "t", "mode": mode, **self.NAMES.get(name, {})}
                    self.db.sql(sql.replace('b""', 'b"').format(COLUMNS=self.COLUMNS))
                    self.mend(self.configuration({"orders": self.forwarder(source)}))

    def check(self, configuration):
        path = os.path.join(self.directory, "mends.yaml")
        with open(path, "w") as f:
            json.dump(configuration, f)
        _, out, _ = penstock("check", "--connect", "-c", path)
        return [line for line in out.splitlines() if re.match("orders: (error|warning): event table", line)]

    def mend(self, configuration):
        seen = []
        while findings := [f for f in self.check(configuration) if f.endswith(";")]:
            self.assertNotIn(findings, seen)
            self.assertLess(len(seen), 4, seen)
            seen.append(findings)
            for finding in findings:
                self.paste(finding)
        self.assertTrue(seen)


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
        self.assertIn("hands out 20 positions at once", d.wait_log(".*CACHE 1;.*").group(0))
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.paste(d.wait_log("ALTER SEQUENCE.*").group(0))
        self.db.sql("ALTER TABLE event ALTER position DROP DEFAULT")
        d.start()
        d.wait_log("does not default to the next value of a sequence")

    def test_a_table_whose_positions_begin_anew_after_a_crash_is_refused(self):
        self.table()
        self.db.sql("ALTER TABLE event SET UNLOGGED")
        d = self.daemon_for()
        reason = d.wait_state("refused")["reason"]
        self.assertIn("is unlogged: a crash", reason)
        self.paste(reason)
        self.assertEqual(d.stop(), 0)
        d.start()
        d.wait_state("idle")

    def test_a_partition_with_a_sequence_of_its_own_is_warned_of(self):
        self.table()
        self.db.sql("""DROP TABLE event;
            CREATE TABLE event (position bigserial PRIMARY KEY, id text NOT NULL, source text NOT NULL DEFAULT '/s',
                type text NOT NULL DEFAULT 'a.b', streamid text) PARTITION BY RANGE (position);
            CREATE TABLE first (position bigserial PRIMARY KEY, id text NOT NULL, source text NOT NULL DEFAULT '/s',
                type text NOT NULL DEFAULT 'a.b', streamid text);
            ALTER TABLE event ATTACH PARTITION first FOR VALUES FROM (1) TO (1000);
            CREATE TABLE second PARTITION OF event FOR VALUES FROM (1000) TO (2000)""")
        d = self.daemon_for()
        said = d.wait_log(".*takes positions of a sequence of its own.*").group(0)
        self.assertIn("public.first", said)
        self.assertNotIn("second", said)
        d.wait_state("idle")
        self.assertEqual(d.stop(), 0)
        self.paste(said)
        before = len(d.log())
        d.start()
        d.wait_state("idle")
        self.assertNotIn("of a sequence of its own", d.log()[before:])

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
