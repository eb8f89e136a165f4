# faults: one planted fault per rule, in a copy of the tree; a rule that doesn't see its own is worth nothing
import shutil, tempfile
from pathlib import Path

import manuals, rules

HEADER = "/* planted: a fault */\n#ifndef PENSTOCK_BASE_PLANTED_H\n#define PENSTOCK_BASE_PLANTED_H\n{}\n#endif\n"
BODY = "/* planted: a fault */\n{}\n"


def replace(path, old, new):
    def plant(root):
        text = (root / path).read_text()
        assert old in text, f"{path} no longer holds {old!r}"
        (root / path).write_text(text.replace(old, new, 1))
    return plant


def add(path, content):
    def plant(root):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(content)
    return plant


# name, rule, how it is planted
FAULTS = [
    ("base includes event", rules.includes_stay_within_their_rooms, add("src/base/planted.c", BODY.format('#include "event/event.h"'))),
    ("flow includes sink", rules.includes_stay_within_their_rooms, add("src/flow/planted.c", BODY.format('#include "sink/sink.h"'))),
    ("forwarder includes a mode of the source", rules.includes_stay_within_their_rooms,
     add("src/forwarder/planted.c", BODY.format('#include "source/snapshot.h"'))),
    ("a room that is not in the table", rules.includes_stay_within_their_rooms, add("src/attic/planted.c", BODY.format(""))),
    ("a sink that knows another", rules.sinks_do_not_know_each_other,
     add("src/sink/null_planted.c", BODY.format('#include "sink/rabbitmq_link.h"'))),
    ("libpq outside pg", rules.libraries_stay_within_their_files, add("src/source/planted.c", BODY.format("#include <libpq-fe.h>"))),
    ("a library nobody knows", rules.libraries_stay_within_their_files, add("src/base/planted.c", BODY.format("#include <curl/curl.h>"))),
    ("a header that needs another first", rules.headers_compile_alone, add("src/base/planted.h", HEADER.format("int f(struct span s);"))),
    ("a header without its guard", rules.headers_are_guarded, add("src/base/planted.h", "/* planted: a fault */\nint f(void);\n")),
    ("strcpy", rules.banned_functions_are_not_called, add("src/base/planted.c", BODY.format("void f(char *a) { strcpy(a, a); }"))),
    ("exit in a room", rules.banned_functions_are_not_called, add("src/pg/planted.c", BODY.format("void f(void) { exit(1); }"))),
    ("usleep in a test", rules.banned_functions_are_not_called, add("tests/unit/planted.c", BODY.format("void f(void) { usleep (1); }"))),
    ("a function of 81 lines", rules.functions_are_short,
     add("src/base/planted.c", BODY.format("int planted(int x) {\n" + 79 * "    x++;\n" + "}"))),
    ("a test of 81 lines", rules.functions_are_short,
     add("tests/unit/planted.c", BODY.format("START_TEST(planted) {\n" + 79 * "    x++;\n" + "}\nEND_TEST"))),
    ("a file of 501 lines", rules.files_are_short, add("src/base/planted.c", BODY.format(499 * "\n"))),
    ("a header of 141 lines", rules.files_are_short, add("src/base/planted.h", BODY.format(139 * "\n"))),
    ("no purpose", rules.first_lines_say_the_purpose, add("src/base/planted.c", "#include <stdio.h>\n")),
    ("another's purpose", rules.first_lines_say_the_purpose, add("src/base/planted.c", "/* buf: bytes */\n")),
    ("two purposes", rules.first_lines_say_the_purpose, replace("src/base/buf.c", "/* buf: bytes", "/* buf: octets")),
    ("a mark", rules.no_marks_are_left, add("src/base/planted.c", BODY.format("/* TO" + "DO: later */"))),
    ("notes that are not here", rules.nothing_points_outside, add("src/base/planted.c", BODY.format("/* see plan.md 3 */"))),
    ("white space at the end", rules.lines_are_clean, add("src/base/planted.c", BODY.format("int x; "))),
    ("a line of 133", rules.lines_are_clean, add("src/base/planted.c", BODY.format("/* " + 127 * "x" + " */"))),
    ("a typedef", rules.structs_have_no_typedef, add("src/base/planted.h", HEADER.format("typedef struct a a;"))),
    ("a file that is not in the map", rules.the_map_is_complete, add("src/base/planted.c", BODY.format(""))),
    ("a purpose that is not the map's", rules.the_map_is_complete, replace("src/base/cleanup.h", "/* cleanup: ", "/* cleanup: other ")),
    ("a message id without an entry", rules.message_ids_have_a_catalog_entry,
     replace("src/base/message_id.h", "\n#define MESSAGE_ID_HELD", '\n#define MESSAGE_ID_NEW "%032x"\n#define MESSAGE_ID_HELD' % 1)),
    ("an entry without a message id", rules.message_ids_have_a_catalog_entry,
     add("systemd/penstock.catalog", f"-- {1:032x}\nSubject: planted\n")),
    ("an unknown key in the unit", rules.the_unit_is_sound_and_tight, replace("systemd/penstockd.service.in", "RestartSec=2", "RestartSec=2\nPlanted=yes")),
    ("a unit without its walls", rules.the_unit_is_sound_and_tight,
     replace("systemd/penstockd.service.in", "SystemCallFilter=@system-service", "ProtectKernelTunables=no\nPrivateUsers=no\nCapabilityBoundingSet=CAP_SYS_ADMIN")),
    ("an exit status that the manual lacks", manuals.manuals_have_every_exit_status, replace("src/penstockd.c", "EXIT_LATE = 1", "EXIT_LATE = 2")),
    ("an exit status that is none", manuals.manuals_have_every_exit_status, replace("man/penstock.1", ".It 69", ".It 68")),
    ("a state that the manual lacks", manuals.manuals_have_every_state, replace("src/forwarder/stats.c", '"held"', '"stuck"')),
    ("two states that are one", manuals.manuals_have_every_state, replace("man/penstockd.8", ".It Sy idle", ".It Sy idle , lazy")),
    ("a message id that the manual lacks", manuals.manuals_have_every_message_id,
     replace("src/base/message_id.h", "\n#define MESSAGE_ID_HELD", '\n#define MESSAGE_ID_NEW "%032x"\n#define MESSAGE_ID_HELD' % 1)),
    ("a message id under another's name", manuals.manuals_have_every_message_id, replace("man/penstockd.8", " Ta held", " Ta lost")),
    ("a journal field that is none", manuals.manuals_have_every_journal_field, replace("man/penstockd.8", ".It Sy PENSTOCK_ERROR", ".It Sy PENSTOCK_FAULT")),
    ("a request that the manual lacks", manuals.manuals_have_every_request, replace("src/status/answer.c", '{"/ready"', '{"/steady"')),
    ("a metric that the manual lacks", manuals.manuals_have_every_metric,
     replace("src/status/metrics.c", '"penstock_healthy"', '"penstock_fit"')),
    ("an outcome that is none", manuals.manuals_have_every_outcome_of_events, replace("man/penstockd.8", ".It Sy nacked", ".It Sy naked")),
    ("a label that the manual lacks", manuals.manuals_have_every_label,
     replace("src/status/metrics.c", 's, "peer", "broker"', 's, "side", "broker"')),
    ("a label's value that the manual lacks", manuals.manuals_have_every_label,
     replace("src/status/metrics.c", 's, "peer", "broker"', 's, "peer", "sink"')),
    ("a member that no document has", manuals.manuals_name_only_members_that_documents_have,
     replace("man/penstockd.8", ".Sy window.held", ".Sy window.stuck")),
    ("an option that is taken and not said", manuals.usages_have_every_option_that_is_taken,
     replace("src/penstock.c", "GIVEN_JSON | GIVEN_CONNECT, 0", "GIVEN_JSON | GIVEN_CONNECT | GIVEN_WATCH, 0")),
    ("a variable that the manual lacks", manuals.manuals_have_every_environment_variable,
     add("src/base/planted.c", BODY.format('const char *f(void) { return getenv("PLANTED"); }'))),
    ("a variable of the command in the daemon's manual", manuals.manuals_have_every_environment_variable,
     replace("man/penstockd.8", ".It Ev JOURNAL_STREAM", ".It Ev JOURNAL_STREAM , NO_COLOR")),
    ("a command that the manual lacks", manuals.manuals_have_every_command_and_option, replace("man/penstock.1", ".It Cm config", ".It Cm settings")),
    ("an option that is none", manuals.manuals_have_every_command_and_option, replace("man/penstock.1", "Fl Fl role", "Fl Fl roles")),
    ("a command that fish lacks", manuals.completions_have_every_command_and_option, replace("conf/completion/penstock.fish", "-a check", "-a chek")),
    ("an option that bash lacks", manuals.completions_have_every_command_and_option, replace("conf/completion/penstock.bash", "--watch ", "")),
    ("an option that zsh has alone", manuals.completions_have_every_command_and_option, replace("conf/completion/_penstock", "'--json[", "'--yaml[")),
    ("mdoc that is none", manuals.manuals_are_clean_mdoc, replace("man/penstock.1", ".Sh ENVIRONMENT", ".Sh ENVIRONMENT\n.Planted")),
]

# What must not be taken for a fault.
HARMLESS = [
    ("a banned name in a comment, a text or a longer name", rules.banned_functions_are_not_called,
     add("src/base/planted.c", BODY.format('/* strcpy() */ const char *x = "gets("; int my_gets(int a); int y(void) { return z->exit(1); }'))),
    ("a function of 80 lines", rules.functions_are_short,
     add("src/base/planted.c", BODY.format("int planted(int x) {\n" + 78 * "    x++;\n" + "}"))),
]


def run(tree):
    """Yields (name, was it seen). Only findings that the fault has brought count."""
    for expected, cases in ((True, FAULTS), (False, HARMLESS)):
        for name, rule, plant in cases:
            with tempfile.TemporaryDirectory(prefix="penstock-style.") as folder:
                root = Path(folder)
                copy(tree, root)
                before = set(rule(rules.Tree(root)))
                plant(root)
                brought = set(rule(rules.Tree(root))) - before
                yield name, bool(brought) == expected


def copy(tree, root):
    for path in tree.all_code() + ["config.mk", "src/README", "systemd/penstock.catalog", "systemd/penstockd.service.in"] \
            + tree.files("man", ".1", ".5", ".8") + [p for p, _, _ in manuals.COMPLETIONS]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree.root / path, root / path)
