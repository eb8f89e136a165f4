"""Tables as people have them: names, schemas, types, partitions, several forwarders."""

import os
import re
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from penstock import Case, main, penstock, wait_until


class Names(Case):
    def test_quoted_names_with_upper_case_and_spaces(self):
        self.db.sql('''
            CREATE SCHEMA "Event Log";
            CREATE TABLE "Event Log"."The ""Events""" (
                "Pos" bigserial PRIMARY KEY, "Event Id" text, "Kind" text, "Stream" text, "Payload" jsonb,
                "Tx" xid8 NOT NULL DEFAULT pg_current_xact_id());
            CREATE INDEX ON "Event Log"."The ""Events""" ("Tx", "Pos");
            INSERT INTO "Event Log"."The ""Events""" ("Event Id", "Kind", "Stream", "Payload")
                SELECT i::text, 'a.b', 's', '{}' FROM generate_series(1, 20) i''')
        self.daemon_for(source={
            "table": '"Event Log"."The ""Events"""',
            "columns": {"position": "Pos", "id": "Event Id", "type": "Kind", "source": {"value": "/x"},
                        "stream_id": "Stream", "data": "Payload", "transaction_id": "Tx"}})
        messages = self.receive(20)
        self.assertEqual([m.id for m in messages], [str(i) for i in range(1, 21)])
        self.assertEqual(messages[0].headers["cloudEvents_source"], "/x")
        self.assertEqual(messages[0].headers["cloudEvents_streamid"], "s")

    def test_another_schema(self):
        self.db.sql("CREATE SCHEMA shop")
        self.db.create_event_table("shop.event")
        self.db.insert("shop.event", id="1", type="a.b")
        d = self.daemon_for(source={"table": "shop.event"})
        self.assertEqual(self.receive_ids(1), ["1"])
        self.assertEqual(d.status()["source"]["table"], "shop.event")

    def test_constants_for_source_and_type(self):
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event ALTER source DROP NOT NULL, ALTER type DROP NOT NULL")
        self.db.insert(id="1", source=None, type=None)
        self.daemon_for(source={"columns": {"source": {"value": "/shop"}, "type": {"value": "a.b"}}})
        message = self.receive(1)[0]
        self.assertEqual((message.headers["cloudEvents_source"], message.headers["cloudEvents_type"]), ("/shop", "a.b"))

    def test_a_transaction_id_column_of_type_bigint(self):
        self.db.create_event_table()
        self.db.sql("""DROP INDEX event_xid_position_idx;
            ALTER TABLE event DROP xid, ADD xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint;
            CREATE INDEX ON event (xid, position)""")
        self.db.insert_many(20, streams=1)
        self.daemon_for()
        self.assertEqual(self.receive_ids(20), [str(i) for i in range(1, 21)])
        self.db.insert_many(20, first=21, streams=1)
        self.assertEqual(self.receive_ids(20), [str(i) for i in range(21, 41)])

    def test_columns_of_other_types_are_read_as_text(self):
        self.db.sql("""
            CREATE TABLE event (position bigserial PRIMARY KEY, id bigint, source varchar(20), type varchar(20),
                streamid uuid, streamversion int, data varchar, datacontenttype varchar,
                xid xid8 NOT NULL DEFAULT pg_current_xact_id());
            CREATE INDEX ON event (xid, position);
            INSERT INTO event (id, source, type, streamid, streamversion, data, datacontenttype)
                VALUES (5, '/x', 'a.b', '123e4567-e89b-12d3-a456-426614174000', 2, 'hello', 'text/plain')""")
        self.daemon_for()
        message = self.receive(1)[0]
        self.assertEqual(message.id, "5")
        self.assertEqual(message.headers["cloudEvents_streamid"], "123e4567-e89b-12d3-a456-426614174000")
        self.assertEqual(message.headers["cloudEvents_streamversion"], "2")
        self.assertEqual(message.body, b"hello")


class Partitions(Case):
    def test_a_partitioned_table(self):
        self.db.sql("""
            CREATE TABLE event (position bigserial, id text, source text DEFAULT '/x', type text, streamid text,
                streamversion bigint, data jsonb, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
                PRIMARY KEY (position)) PARTITION BY RANGE (position);
            CREATE INDEX ON event (xid, position);
            CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM (1) TO (101);
            CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM (101) TO (201);
            CREATE TABLE event_3 PARTITION OF event FOR VALUES FROM (201) TO (301)""")
        self.db.insert_many(150, streams=1)
        self.daemon_for()
        self.assertEqual(self.receive_ids(150), [str(i) for i in range(1, 151)])
        # Also a row put straight into a leaf.
        self.db.sql("INSERT INTO event_3 (position, id, type, streamid) VALUES (250, 'leaf', 'a.b', 's0')")
        self.assertEqual(self.receive_ids(1), ["leaf"])
        # And into a partition that did not exist when the daemon started.
        self.db.sql("CREATE TABLE event_4 PARTITION OF event FOR VALUES FROM (301) TO (401)")
        self.db.sql("INSERT INTO event (position, id, type, streamid) VALUES (350, 'new', 'a.b', 's0')")
        self.assertEqual(self.receive_ids(1), ["new"])


class Several(Case):
    def test_several_forwarders_on_one_table_have_their_own_places(self):
        self.db.create_event_table()
        self.db.insert_many(30, streams=3, type="order.placed")
        self.db.insert_many(30, first=31, streams=3, type="order.paid")
        queues = {name: self.bound_queue(name) for name in ("all", "paid", "late")}
        forwarders = {name: self.forwarder(rules=[{"to": {"exchange": queue, "routing_key": "{type}"}}])
                      for name, queue in queues.items()}
        forwarders["paid"]["source"]["filter"] = {"exact": {"type": "order.paid"}}
        forwarders["late"]["source"]["start"] = {"position": 51}
        self.daemon(self.configuration(forwarders))
        self.assertEqual(len(self.receive(60, queue=queues["all"])), 60)
        self.assertEqual({m.headers["cloudEvents_type"] for m in self.receive(30, queue=queues["paid"])}, {"order.paid"})
        self.assertEqual(sorted(int(m.id) for m in self.receive(10, queue=queues["late"])), list(range(51, 61)))
        for name, queue in queues.items():
            self.wait_saved(60, name)
            self.assert_queue_empty(queue)

    def test_one_forwarder_that_cannot_go_on_does_not_stop_the_other(self):
        self.db.create_event_table()
        self.db.insert_many(10)
        d = self.daemon(self.configuration({
            "stuck": self.forwarder(rules=[{"to": {"exchange": "no-such-exchange", "routing_key": "k"}}]),
            "lost": self.forwarder(source={"table": "no_such_table"}),
            "orders": self.forwarder()}))
        self.receive(10)
        self.wait_saved(10)
        d.wait_state("held", forwarder="stuck")
        self.assertIn("no_such_table", d.wait_state("refused", forwarder="lost")["reason"])


class Unfit(Case):
    """What only an operator can mend: said with the statement that does it; then it goes on by itself (G13, G10)."""

    def test_a_table_without_a_transaction_id_column_goes_on_once_the_statement_was_run(self):
        self.db.create_event_table()
        self.db.sql("ALTER TABLE event DROP xid")
        self.db.insert_many(10, streams=1)
        d = self.daemon_for(source={"mode": "snapshot"})
        d.wait_state("refused")
        said = d.wait_log(r"ALTER TABLE.*").group(0)
        self.assertIn("pg_current_xact_id()", said)
        self.assert_queue_empty()
        statements = re.findall(r"(?:ALTER TABLE|CREATE INDEX)[^;]*;", d.log())
        for statement in dict.fromkeys(statements):
            self.db.sql(statement)
        self.assertEqual(self.receive_ids(10, seconds=45), [str(i) for i in range(1, 11)])
        self.db.insert_many(5, first=11, streams=1)
        self.assertEqual(self.receive_ids(5), [str(i) for i in range(11, 16)])

    def test_a_row_without_position_is_refused_with_the_statement_that_mends_it(self):
        self.db.sql("""CREATE TABLE event (position bigint NOT NULL UNIQUE, id text, source text DEFAULT '/s',
                type text DEFAULT 'a.b', xid xid8 NOT NULL DEFAULT pg_current_xact_id());
            CREATE INDEX ON event (xid, position)""")
        d = self.daemon()
        d.wait_state("idle")
        self.db.sql("ALTER TABLE event ALTER position DROP NOT NULL; INSERT INTO event (id) VALUES ('1')")
        d.wait_state("refused")
        d.wait_log("ALTER COLUMN \"position\" SET NOT NULL")
        self.assert_queue_empty()

    def test_a_column_named_but_not_there_is_refused_by_name(self):
        self.db.create_event_table()
        d = self.daemon_for(source={"columns": {"subject": "no_such_column", "data": "nor_this"}})
        d.wait_state("refused")
        d.wait_log("no_such_column")
        d.wait_log("nor_this")

    def test_missing_rights_are_refused_with_the_grant(self):
        self.db.create_event_table()
        self.db.sql(penstock("schema", "--role", "nobody_much")[1])     # ours, but nothing about the event table
        c = self.configuration()
        c["connections"]["db"]["postgresql"]["conninfo"] += " user=nobody_much"
        d = self.daemon(c)
        d.wait_state("refused")
        self.db.sql(d.wait_log(r"GRANT SELECT[^;]*;").group(0))
        d.stop()
        self.db.insert(id="1", type="a.b")
        d.start()
        self.assertEqual(self.receive_ids(1), ["1"])

    def test_a_missing_right_on_the_journal_is_refused_with_the_grant(self):
        """Not told of when an operator wants to command something."""
        self.db.create_event_table()
        self.db.sql(penstock("schema", "--role", "nobody_noted", "--event-table", "event")[1])
        self.db.sql("REVOKE ALL ON penstock.journal FROM nobody_noted; GRANT SELECT ON event TO nobody_noted")
        c = self.configuration()
        c["connections"]["db"]["postgresql"]["conninfo"] += " user=nobody_noted"
        d = self.daemon(c)
        d.wait_state("refused")
        self.db.sql(d.wait_log(r"GRANT USAGE[^;]*;[^;]*;[^;]*;").group(0))
        d.stop()
        d.start().wait_state("idle")
        self.assertEqual(penstock("-s", d.socket, "pause", "orders", "--reason", "x")[0], 0)

    def test_the_printed_schema_and_grants_are_enough(self):
        role = f"reader_{Case.stories}"
        self.db.sql(f"CREATE SCHEMA shop; CREATE ROLE {role} LOGIN")
        code, table_sql, err = penstock("schema", "--role", role, "--event-table", "shop.event")
        self.assertEqual(code, 0, err)
        self.db.sql(table_sql)
        id = str(uuid.uuid4())
        self.db.insert("shop.event", id=id, type="a.b", source="/x")
        c = self.configuration({"orders": self.forwarder(source={"table": "shop.event"})}, checkpoint={"create": False})
        c["connections"]["db"]["postgresql"]["conninfo"] += f" user={role}"
        d = self.daemon(c)
        self.assertEqual(self.receive_ids(1), [id])
        self.wait_saved(1)
        self.assertEqual(d.stop(), 0)

    def test_the_printed_grants_are_enough_for_both_modes_and_every_command(self):
        for mode in ("snapshot", "gaps"):
            with self.subTest(mode):
                role, table = f"Rea'der {Case.stories} {mode}", f'event_{mode}'
                quoted = '"' + role + '"'
                self.db.sql(f"CREATE ROLE {quoted} LOGIN")
                self.db.sql(penstock("schema", "--role", role, "--event-table", f"public.{table}")[1])
                self.db.insert(table, id="1", type="a.b", source="/x")
                name = f"orders-{mode}"
                c = self.configuration({name: self.forwarder({"table": table, "mode": mode})}, checkpoint={"create": False})
                c["connections"]["db"]["postgresql"]["conninfo"] += " user='" + role.replace("'", "\\'") + "'"
                d = self.daemon(c)
                self.assertEqual(self.receive_ids(1), ["1"])
                self.wait_saved(1, name)
                for command in ("pause", "resume"):
                    self.assertEqual(penstock("-s", d.socket, command, name, "--reason", "x")[0], 0)
                if mode == "gaps":      # a position that nobody fills stands in our table gap
                    self.db.sql(f"SELECT nextval('{table}_position_seq')")
                    self.db.insert(table, id="3", type="a.b", source="/x")
                    self.assertEqual(self.receive_ids(1), ["3"])
                    wait_until(lambda: d.status(name)["source"]["gaps"]["open"] == 0)   # nor has any below the first
                    self.db.insert(table, id="after", type="a.b", source="/x")  # a save that comes after the proof
                    self.assertEqual(self.receive_ids(1), ["after"])
                    wait_until(lambda: self.db.value("SELECT count(*) FROM penstock.gap WHERE first = 2") == 1)
                bad = self.db.insert(table, id="4", type="", source="/x")
                d.wait_state("held", forwarder=name)
                code, out, err = penstock("-s", d.socket, "skip", name, str(bad), "--reason", "x")
                self.assertEqual(code, 0, out + err)
                self.assertEqual(d.stop(), 0)
                code, out, err = penstock("-c", d.config_file, "rebase", name, "--position", str(bad), "--reason", "x")
                self.assertEqual(code, 0, out + err)
                self.db.insert(table, id="5", type="a.b", source="/x")
                d.start()
                self.assertEqual(self.receive_ids(1), ["5"])
                self.assertEqual(d.stop(), 0)

    def test_without_our_tables_and_without_create_the_statement_is_said(self):
        self.db.create_event_table()
        self.db.insert(id="1", type="a.b")
        d = self.daemon(self.configuration(checkpoint={"create": False}))
        d.wait_state("refused")
        d.wait_log("penstock schema|CREATE TABLE")
        self.assertIsNone(self.db.value("SELECT to_regclass('penstock.checkpoint')"))
        self.assert_queue_empty()


if __name__ == "__main__":
    main()
