"""writers: the load of people who write events, in every way that a transaction can go.

Plain inserts, batches, savepoints rolled back and released, rollbacks, two-phase
commit, long transactions, transactions that own a transaction id early. Each event
belongs to a stream whose version is bumped under a row lock: the order of versions
is the true order of cause and effect. What was committed is asked of the table
afterwards; the writers survive restarts of the server and do not count.
"""

import random
import threading
import time

import psycopg2

STREAMS = 200
SCHEMA = f"""
    CREATE TABLE stream (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 0);
    INSERT INTO stream SELECT i FROM generate_series(0, {STREAMS - 1}) i;
    CREATE TABLE unrelated (id int PRIMARY KEY, n bigint NOT NULL DEFAULT 0);
    INSERT INTO unrelated SELECT i FROM generate_series(0, 99) i"""
TYPES = ["order.placed"] * 7 + ["order.paid", "user.added", "user.left"]


class Writers:
    def __init__(self, database, count, seed, pause=0.02):
        self.database, self.pause = database, pause
        self.stopping = threading.Event()
        self.commits = [0] * count
        self.errors = []
        self.threads = [threading.Thread(target=self._run, args=(n, random.Random(f"{seed}-{n}")), daemon=True)
                        for n in range(count)]
        self.threads.append(threading.Thread(target=self._janitor, args=(random.Random(f"{seed}-janitor"),), daemon=True))

    def start(self):
        for t in self.threads:
            t.start()

    def stop(self):
        """Ends all and leaves no transaction open, prepared ones included."""
        self.stopping.set()
        for t in self.threads:
            t.join(30)
        self._resolve_prepared(random.Random(0), 0)
        self.check()

    def check(self):
        if self.errors:
            raise AssertionError(f"a writer failed: {self.errors[0]!r}")

    def _connect(self):
        connection = self.database.connect()
        connection.autocommit = True    # BEGIN and COMMIT are said in SQL, PREPARE TRANSACTION too
        return connection

    def _run(self, number, rng):
        connection, transaction = None, 0
        while not self.stopping.is_set():
            transaction += 1
            try:
                if connection is None:
                    connection = self._connect()
                self._transaction(connection.cursor(), number, transaction, rng)
                self.commits[number] += 1
            except psycopg2.Error as e:
                # Without a code it is the connection's end; 57P01 and its like say so themselves.
                if e.pgcode is not None and e.pgcode[:2] not in ("57", "08") and e.pgcode != "42704":
                    self.errors.append(e)
                    return
                # The server was stopped below us (whether that commit happened, the table knows),
                # or the janitor was faster.
                connection = None
                time.sleep(0.1)
            time.sleep(rng.random() * self.pause)
        if connection is not None:
            connection.close()

    def _events(self, cursor, stream, count, type):
        cursor.execute("UPDATE stream SET version = version + %s WHERE id = %s RETURNING version", (count, stream))
        last = cursor.fetchone()[0]
        cursor.execute("""INSERT INTO event (type, streamid, streamversion, subject, data)
            SELECT %s, %s, v, 'subject', jsonb_build_object('v', v, 'text', repeat('x', 200))
            FROM generate_series(%s::bigint, %s::bigint) v ORDER BY v""", (type, str(stream), last - count + 1, last))

    def _transaction(self, cursor, number, transaction, rng):
        stream, type = rng.randrange(STREAMS), rng.choice(TYPES)
        cursor.execute("BEGIN")
        if rng.random() < 0.5:      # owns an xid before it gets the stream's lock
            cursor.execute("UPDATE unrelated SET n = n + 1 WHERE id = %s", (number,))
            time.sleep(rng.random() * 0.005)
        kind = rng.random()
        if kind < 0.65:
            self._events(cursor, stream, 1, type)
        elif kind < 0.80:
            self._events(cursor, stream, 20, type)
        else:
            cursor.execute("SAVEPOINT a")
            self._events(cursor, stream, 2, type)
            cursor.execute("ROLLBACK TO a")
            cursor.execute("SAVEPOINT b")
            self._events(cursor, stream, 2, type)
            cursor.execute("RELEASE b")
        time.sleep(rng.random() * (1.5 if rng.random() < 0.01 else 0.025))
        end = rng.random()
        if end < 0.1:
            cursor.execute("ROLLBACK")
        elif end < 0.2:
            name = f"w{number}-{transaction}-{rng.randrange(1 << 30)}"
            cursor.execute(f"PREPARE TRANSACTION '{name}'")
            time.sleep(rng.random() * 0.05)
            cursor.execute(f"{'ROLLBACK' if rng.random() < 0.2 else 'COMMIT'} PREPARED '{name}'")
        else:
            cursor.execute("COMMIT")

    def _janitor(self, rng):
        """What a stopped server left prepared is ended some time later."""
        while not self.stopping.wait(1):
            self._resolve_prepared(rng, 2)

    def _resolve_prepared(self, rng, older_than):
        try:
            connection = self._connect()
            cursor = connection.cursor()
            cursor.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database() "
                           "AND prepared <= now() - make_interval(secs => %s)", (older_than,))
            for (gid,) in cursor.fetchall():
                try:
                    cursor.execute(f"{rng.choice(['COMMIT', 'ROLLBACK'])} PREPARED '{gid}'")
                except psycopg2.errors.UndefinedObject:     # its writer was faster
                    pass
            connection.close()
        except psycopg2.Error:      # the server is away: later
            pass
