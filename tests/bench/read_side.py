"""read_side: the read side alone (sink null) against a bare libpq loop over the same pages, with and without partitions."""

import os

from measure import BUILD, Database, Measure

BARE = os.path.join(BUILD, "tests", "bench", "bare_kafka")
PAGE_ROWS = "5000"      # as source/portion has it
MONTHS = 60


class Read(Measure):
    def __init__(self, rows, rounds):
        super().__init__(rows, rounds, "bench-read", 200)

    def start(self):
        self.start_postgres()
        self.parted = Database(self.postgres, "parted")
        self.parted.create_event_table()
        self.parted.sql("ALTER TABLE event RENAME TO whole")
        self.parted.sql("""CREATE TABLE event (LIKE whole INCLUDING DEFAULTS, PRIMARY KEY (position, time))
            PARTITION BY RANGE (time)""")
        self.parted.sql("CREATE INDEX ON event (xid, position)")
        for month in range(MONTHS):
            self.parted.sql("""DO $$ BEGIN EXECUTE format('CREATE TABLE event_%s PARTITION OF event FOR VALUES FROM (%%L) TO (%%L)',
                date '2026-01-01' + %s * interval '1 month', date '2026-01-01' + (%s + 1) * interval '1 month'); END $$"""
                            % (month, month, month))
        self.fill(self.parted)

    def clean(self):
        self.postgres.clean()

    def compare(self, what, db, source):
        configuration = self.configuration(db, {"null": {}}, {}, source)
        f = self.in_turn(what, {"bare": lambda: self.drain_bare([BARE, db.conninfo(), PAGE_ROWS]),
                                "penstock": lambda: self.drain_penstock(what, configuration, db)})["penstock"]
        print(f"{what} ratio: {f['ratio_events_per_second']:.2f} of the rate (wanted 0.8), {f['ratio_cpu_us']:.2f} times the CPU",
              flush=True)

    def run(self):
        for mode in ("snapshot", "gaps"):
            self.compare(f"read {mode}", self.db, {"mode": mode})
            self.compare(f"read {mode}, {MONTHS} partitions", self.parted, {"mode": mode})
