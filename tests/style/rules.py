# rules: what house rules can be checked by a machine; each is a function of a Tree
import json, os, re, shlex, subprocess
from fnmatch import fnmatch
from pathlib import Path

FILE_LINES_MAX = 500
HEADER_LINES_MAX = 140
FUNCTION_LINES_MAX = 80
FUNCTION_LINES_SMELL = 60
COLUMNS_MAX = 132  # .clang-format aims at 120

# Nowhere: no bound, no way to report a failure, or one place for all threads.
BANNED = """strcpy strncpy strcat strncat stpcpy sprintf vsprintf gets strtok atoi atol atoll atof
    rand srand random srandom system popen alloca tmpnam mktemp tempnam sleep usleep
    ctime asctime localtime gmtime setjmp longjmp inet_ntoa gethostbyname
    pthread_cancel assert""".split()
# Only main ends the process, beside log_bug.
BANNED_IN_ROOMS = "exit _exit abort quick_exit putenv setenv".split()
ENDS_THE_PROCESS = {"src/base/log.c": ["_exit"]}
# A test may end its child, and set what is read from the environment.
ALLOWED_IN_TESTS = BANNED_IN_ROOMS

# What glibc and the kernel bring. Any other <header.h> must stand in src/README's table.
C_LIBRARY = re.compile(r"""(assert|complex|ctype|dirent|dlfcn|endian|errno|fcntl|fnmatch|getopt|grp|ifaddrs|inttypes|
    langinfo|libgen|limits|locale|malloc|math|netdb|poll|pthread|pwd|regex|sched|search|semaphore|setjmp|signal|
    spawn|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|syslog|termios|
    threads|time|uchar|unistd|wchar|wctype)\.h|(sys|net|netinet|arpa|linux|bits)/.*\.h""", re.X)

# The parts of the specification, by the names that they have there.
CLOUDEVENTS = ["spec.md", "json-format.md", "amqp-protocol-binding.md", "kafka-protocol-binding.md", "cesql/spec.md"]

MAP_BEGIN, MAP_END = "<!-- map: tests/style/map --write -->", "<!-- end of map -->"


class Tree:
    """The files of one work tree, read once."""

    def __init__(self, root):
        self.root = Path(root)
        self.texts = {}

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return self.texts[path]

    def files(self, top, *suffixes):
        found = (p.relative_to(self.root).as_posix() for p in (self.root / top).rglob("*")
                 if p.suffix in suffixes and p.is_file() and "vectors" not in p.parts)
        return sorted(found)

    def sources(self):
        return self.files("src", ".c", ".h", ".list")

    def all_code(self):
        return self.sources() + self.files("tests", ".c", ".h")

    def code(self, path):
        """The text with comments and the insides of literals blanked; lines stay where they are."""
        def blank(match):
            return re.sub(r"[^\n]", " ", match[0])
        return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, self.text(path), flags=re.S)


def room_of(path):
    """src/pg/pgconn.c -> pg; what stands directly in src is the hall."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else "hall"


def table(tree, first_cell):
    """Rows of the Markdown table in src/README whose head begins with that cell: {first: second}."""
    rows, inside = {}, False
    for line in tree.text("src/README").splitlines():
        cells = [c.strip().replace("`", "") for c in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            inside = False
        elif cells[0] == first_cell:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            rows[cells[0]] = cells[1]
    return rows


def lines_with(tree, path, pattern, code=True):
    text = tree.code(path) if code else tree.text(path)
    for number, line in enumerate(text.splitlines(), 1):
        for match in re.finditer(pattern, line):
            yield number, match


# --- the rules ---

def includes_stay_within_their_rooms(tree):
    rooms = table(tree, "room")
    if not rooms:
        yield "src/README", 1, "has no table 'room | may include'"
    for path in tree.sources():
        room = room_of(path)
        if room not in rooms:
            yield path, 1, f"room '{room}' does not stand in src/README's table"
            continue
        allowed = rooms[room].split()
        for number, match in lines_with(tree, path, r'^\s*#\s*include\s+"([^"]+)"', code=False):
            target = match[1]
            target_room = room_of("src/" + target)
            if target_room != room and "all" not in allowed and target_room not in allowed and target not in allowed:
                yield path, number, f"{room} may not include {target} (src/README: {rooms[room]})"


def sinks_do_not_know_each_other(tree):
    kinds = re.findall(r"^SINK\((\w+)\)", tree.text("src/sink/sinks.list"), re.M)
    for path in tree.sources():
        for number, match in lines_with(tree, path, r'^\s*#\s*include\s+"sink/([^"]+)"', code=False):
            kind = next((k for k in kinds if re.match(rf"{k}[_.]", match[1])), None)
            if kind and not re.match(rf"src/sink/{kind}[_.]", path):
                yield path, number, f"sink/{match[1]} is for {kind} alone"


def libraries_stay_within_their_files(tree):
    owners = table(tree, "library header")
    if not owners:
        yield "src/README", 1, "has no table 'library header | only in'"
    for path in tree.sources():
        for number, match in lines_with(tree, path, r"^\s*#\s*include\s+<([^>]+)>", code=False):
            header = match[1]
            if C_LIBRARY.fullmatch(header):
                continue
            places = next((owners[o] for o in owners if fnmatch(header, o)), None)
            if places is None:
                yield path, number, f"<{header}> stands neither in the C library nor in src/README's table"
            elif not any(fnmatch(path, "src/" + place) for place in places.split()):
                yield path, number, f"<{header}> only in {places}"


def headers_compile_alone(tree):
    flags = subprocess.run(["sed", "-n", r"s/^LIB_CFLAGS = //p;s/^CHECK_CFLAGS = //p", "config.mk"],
                           cwd=tree.root, capture_output=True, text=True).stdout.split()
    flags += ["-std=gnu17", "-D_GNU_SOURCE", '-DPENSTOCK_VERSION="0"', '-DPENSTOCK_SYSCONFDIR="/etc"', "-Isrc", "-Itests"]
    compiler = shlex.split(os.environ.get("CC", "cc"))
    for path in tree.all_code():
        if not path.endswith(".h"):
            continue
        run = subprocess.run(compiler + flags + ["-Wall", "-Werror", "-fsyntax-only", "-xc", path],
                             cwd=tree.root, capture_output=True, text=True)
        if run.returncode != 0:
            yield path, 1, "does not compile alone: " + run.stderr.strip().splitlines()[0]


def banned_functions_are_not_called(tree):
    for path in tree.all_code():
        rooms = path.startswith("src/") and room_of(path) != "hall"
        banned = BANNED + [f for f in BANNED_IN_ROOMS if rooms and f not in ENDS_THE_PROCESS.get(path, [])]
        pattern = r"(?<![\w.>])(" + "|".join(banned) + r")\s*\("
        for number, match in lines_with(tree, path, pattern):
            yield path, number, f"calls {match[1]}"


def functions(tree):
    paths = [p for p in tree.all_code() if p.endswith((".c", ".h"))]
    run = subprocess.run(["ctags", "--output-format=json", "--fields=+ne", "--kinds-C=f", "--languages=C",
                          "--langmap=C:.c.h", "-D", "START_TEST(name)=void name(int unused)", "-f", "-"] + paths,
                         cwd=tree.root, capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        tag = json.loads(line)
        if "end" in tag:
            yield tag["path"], tag["line"], tag["name"], tag["end"] - tag["line"] + 1


def functions_are_short(tree):
    for path, line, name, length in functions(tree):
        if length > FUNCTION_LINES_MAX:
            yield path, line, f"{name} has {length} lines, over {FUNCTION_LINES_MAX}"


def long_functions(tree):
    """Not an error: what smells."""
    for path, line, name, length in functions(tree):
        if FUNCTION_LINES_SMELL < length <= FUNCTION_LINES_MAX:
            yield path, line, f"{name} has {length} lines, over {FUNCTION_LINES_SMELL}"


def files_are_short(tree):
    for path in tree.all_code():
        lines = tree.text(path).count("\n")
        most = HEADER_LINES_MAX if path.endswith(".h") else FILE_LINES_MAX
        if lines > most and path.startswith("src/"):
            yield path, 1, f"has {lines} lines, over {most}"


def purpose(tree, path):
    """'name: purpose' of the first line, or None."""
    first = tree.text(path).split("\n", 1)[0]
    match = re.fullmatch(r"/\* (\w+): (\S.*\S) \*/", first)
    return match and (match[1], match[2])


def first_lines_say_the_purpose(tree):
    for path in tree.all_code():
        if path.endswith(".list"):
            continue
        found, stem = purpose(tree, path), Path(path).stem
        if not found or found[0] != stem:
            yield path, 1, f"does not begin with '/* {stem}: purpose */'"
            continue
        twin = path[:-2] + ".h"
        if path.endswith(".c") and (tree.root / twin).exists() and purpose(tree, twin) not in (None, found):
            yield path, 1, "says another purpose than its header"


def no_marks_are_left(tree):
    for path in tree.all_code():
        for number, match in lines_with(tree, path, r"\b(TODO|FIXME|XXX|HACK)\b", code=False):
            yield path, number, f"'{match[1]}' is left"


def nothing_points_outside(tree):
    """A reader has this repository and the web: no notes that lie elsewhere."""
    for path in tree.all_code():
        for number, match in lines_with(tree, path, r"[\w-]+\.md\b|/work/\w*", code=False):
            if match[0] not in CLOUDEVENTS and not any(tree.root.rglob(match[0].lstrip("/"))):
                yield path, number, f"names {match[0]}, which is not here"


def lines_are_clean(tree):
    for path in tree.all_code():
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            if line != line.rstrip():
                yield path, number, "ends in white space"
            if "\t" in line:
                yield path, number, "holds a tab"
            if len(line) > COLUMNS_MAX:
                yield path, number, f"is over {COLUMNS_MAX} columns wide"


def structs_have_no_typedef(tree):
    for path in tree.all_code():
        for number, _ in lines_with(tree, path, r"\btypedef\s+(struct|enum|union)\b"):
            yield path, number, "hides a struct, an enum or a union behind a typedef"


def headers_are_guarded(tree):
    for path in tree.all_code():
        if not path.endswith(".h"):
            continue
        parts = path[:-2].split("/")
        folders = "_".join(parts[1:-1] if parts[0] == "src" else parts[:-1]).upper()
        if parts[0] == "tests":
            folders = f"TESTS(?:{folders[5:]})?"
        guard = rf"#ifndef (PENSTOCK_{folders}_?{parts[-1].upper()}_H)\n#define \1\n"
        if not re.search(guard, tree.text(path)):
            yield path, 1, f"is not guarded by PENSTOCK_…_{parts[-1].upper()}_H"


def the_map_is_complete(tree):
    text = tree.text("src/README")
    if MAP_BEGIN not in text or MAP_END not in text:
        yield "src/README", 1, f"has no '{MAP_BEGIN}' … '{MAP_END}'"
    elif text.split(MAP_BEGIN)[1].split(MAP_END)[0] != "\n" + make_map(tree):
        yield "src/README", text[:text.index(MAP_BEGIN)].count("\n") + 1, "its map is not that of the files: tests/style/map --write"


def make_map(tree):
    """One line per noun (x.c and x.h are one), by room in the order of the table."""
    nouns = {}
    for path in tree.sources():
        stem = path[:path.rindex(".")]
        name = stem + ".list" if path.endswith(".list") else stem
        found = purpose(tree, path)
        nouns.setdefault(name[4:], found[1] if found else tree.text(path).split("\n", 1)[0].strip("/* "))
    width = max(map(len, nouns))
    order = ["hall"] + [r for r in table(tree, "room") if r != "hall"]
    def by_room(name):
        room = room_of("src/" + name)
        return order.index(room) if room in order else len(order), name
    lines, room = [], None
    for name in sorted(nouns, key=by_room):
        if room is not None and room_of("src/" + name) != room:
            lines.append("")
        room = room_of("src/" + name)
        lines.append(f"    {name:{width}}  {nouns[name]}")
    return "\n" + "\n".join(lines) + "\n\n"


def message_ids_have_a_catalog_entry(tree):
    ids = re.findall(r'#define MESSAGE_ID_(\w+) "([^"]*)"', tree.text("src/base/message_id.h"))
    entries = re.findall(r"^-- (\S+)$", tree.text("systemd/penstock.catalog"), re.M)
    for name, value in ids:
        if not re.fullmatch(r"[0-9a-f]{32}", value):
            yield "src/base/message_id.h", 1, f"{name} is not 32 hex digits"
        if entries.count(value) != 1:
            yield "systemd/penstock.catalog", 1, f"has {entries.count(value)} entries for {name} ({value})"
    for value in sorted(set(entries) - {v for _, v in ids}):
        yield "systemd/penstock.catalog", 1, f"explains {value}, which is no message id"
    used = " ".join(tree.code(p) for p in tree.sources() if p != "src/base/message_id.h")
    for name, _ in ids:
        if not re.search(rf"\bMESSAGE_ID_{name}\b", used):
            yield "src/base/message_id.h", 1, f"MESSAGE_ID_{name} is said nowhere"


def the_unit_is_sound_and_tight(tree):
    """systemd-analyze on the unit as it would be installed (with a program that exists)."""
    unit = tree.text("systemd/penstockd.service.in").replace("@sbindir@/penstockd", "/bin/true").replace("@sysconfdir@", "/etc")
    unit = unit.replace("@bindir@/penstock", "/bin/true").replace("@service_type@", "notify")
    path = "systemd/penstockd.service.in"
    folder = tree.root / "build" / "style"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "penstockd.service").write_text(unit)
    commands = [["verify", "--man=no", "--recursive-errors=no"], ["security", "--offline=true", "--no-pager", "--threshold=20"]]
    for command in commands:
        run = subprocess.run(["systemd-analyze", *command, str(folder / "penstockd.service")], capture_output=True, text=True)
        if run.returncode != 0:
            said = (run.stderr.strip() or run.stdout.strip()).splitlines()
            yield path, 1, f"systemd-analyze {command[0]}: {said[-1] if said else run.returncode}"


RULES = [
    includes_stay_within_their_rooms,
    sinks_do_not_know_each_other,
    libraries_stay_within_their_files,
    headers_compile_alone,
    headers_are_guarded,
    banned_functions_are_not_called,
    functions_are_short,
    files_are_short,
    first_lines_say_the_purpose,
    no_marks_are_left,
    nothing_points_outside,
    lines_are_clean,
    structs_have_no_typedef,
    the_map_is_complete,
    message_ids_have_a_catalog_entry,
    the_unit_is_sound_and_tight,
]
