# manuals: what penstock(1) and penstockd(8) name is what the code has, both ways; their mdoc is clean
#
# The keys of penstock.yaml(5) are compared with their tables by tests/unit/test_config.c.
import re, shutil, subprocess

DAEMON, COMMAND = "man/penstockd.8", "man/penstock.1"

# Read for us by libsystemd: sd_notify(3), sd_watchdog_enabled(3).
LIBRARIES = {"NOTIFY_SOCKET": r"\bsd_notifyf?\(", "WATCHDOG_USEC": r"\bsd_watchdog_enabled\("}


def part(tree, manual, macro, title):
    """The lines of a section (Sh) or subsection (Ss); [] if it isn't there."""
    lines, inside = [], False
    for line in tree.text(manual).splitlines():
        if line.startswith((".Sh ", ".Ss ") if macro == "Ss" else ".Sh "):
            inside = line == f".{macro} {title}"
        elif inside:
            lines.append(line)
    return lines


def items(lines, macro=""):
    """The words of each '.It': '.It Sy stopping , stopped' with macro 'Sy ' -> stopping, stopped."""
    found = set()
    for line in lines:
        if line.startswith(".It " + macro):
            found |= set(line[len(".It " + macro):].split()) - {","}
    return found


def both_ways(manual, what, named, existing):
    for name in sorted(existing - named):
        yield manual, 1, f"lacks the {what} {name}"
    for name in sorted(named - existing):
        yield manual, 1, f"names the {what} {name}, which does not exist"


def enumerators(tree, path, enum):
    body = re.search(rf"\benum {enum} \{{(.*?)\}}", tree.text(path), re.S)
    return set(re.findall(r"= (\d+)", body[1] if body else ""))


def manuals_have_every_exit_status(tree):
    for manual, existing in (
            (DAEMON, enumerators(tree, "src/penstockd.c", "exit_status") | set(re.findall(r"EXIT_BUG = (\d+)", tree.text("src/base/log.c")))),
            (COMMAND, enumerators(tree, "src/penstock_command.h", "penstock_exit"))):
        named = {i for i in items(part(tree, manual, "Sh", "EXIT STATUS")) if i.isdigit()}
        yield from both_ways(manual, "exit status", named, existing)


def manuals_have_every_state(tree):
    existing = set(re.findall(r'\[FORWARDER_\w+\] = "(\w+)"', tree.text("src/forwarder/stats.c")))
    yield from both_ways(DAEMON, "state", items(part(tree, DAEMON, "Ss", "States"), "Sy "), existing)


def manuals_have_every_message_id(tree):
    existing = {value: name for name, value in re.findall(r'#define MESSAGE_ID_(\w+) "([^"]*)"', tree.text("src/base/message_id.h"))}
    named = dict(re.findall(r"^\.It ([0-9a-f]{32}) Ta (.*)$", tree.text(DAEMON), re.M))
    yield from both_ways(DAEMON, "message id", set(named), set(existing))
    for value in sorted(set(named) & set(existing)):
        words = existing[value].lower().split("_")
        if not all(word in named[value] for word in words):
            yield DAEMON, 1, f"calls message id {value} '{named[value]}'; it is '{' '.join(words)}'"


def manuals_have_every_metric(tree):
    existing = set(re.findall(r'"(penstock_\w+)"', tree.text("src/status/metrics.c")))
    existing |= set(re.findall(r'"(penstock_\w+)\{', tree.text("src/status/metrics.c")))
    named = {i for i in items(part(tree, DAEMON, "Ss", "Metrics"), "Sy ") if i.startswith("penstock_")}
    yield from both_ways(DAEMON, "metric", named, existing)


def manuals_have_every_outcome_of_events(tree):
    existing = set(re.findall(r'\{"(\w+)", c->\w+\}', tree.text("src/status/metrics.c")))
    named = {i for i in items(part(tree, DAEMON, "Ss", "Metrics"), "Sy ") if not i.startswith("penstock_")}
    yield from both_ways(DAEMON, "outcome", named, existing)


def manuals_have_every_label(tree):
    code, text = tree.text("src/status/metrics.c"), " ".join(part(tree, DAEMON, "Ss", "Metrics"))
    for label, value in {("forwarder", None), *re.findall(r'put_labelled\(w, name, s, "(\w+)", (?:"(\w+)"|\w)', code)}:
        if f".Sy {label} " not in text + " ":
            yield DAEMON, 1, f"lacks the label {label}"
        if value and not re.search(rf"\b{value}\b", text):
            yield DAEMON, 1, f"lacks the value {value} of the label {label}"


def manuals_name_only_members_that_documents_have(tree):
    """Written as outer.inner; what stands in a document is named by the document itself."""
    existing = set(re.findall(r'\bput\(\w+, "(\w+)"', tree.text("src/status/document.c")))
    for manual in (DAEMON, COMMAND):
        for outer, inner in re.findall(r"^\.Sy (\w+)\.(\w+)", tree.text(manual), re.M):
            if outer != "penstock" and not {outer, inner} <= existing:
                yield manual, 1, f"names the member {outer}.{inner} of a status document, which does not exist"


def manuals_have_every_journal_field(tree):
    existing = set(re.findall(r'"(PENSTOCK_\w+|MESSAGE_ID)", fields->', tree.text("src/base/log.c")))
    named = {i for i in items(part(tree, DAEMON, "Ss", "Journal"), "Sy ") if i.isupper()}
    yield from both_ways(DAEMON, "journal field", named, existing)


def manuals_have_every_request(tree):
    answer = tree.text("src/status/answer.c")
    existing = set(re.findall(r'^    \{"(/\w+)", get_\w+\}', answer, re.M)) | set(re.findall(r'under_status\[\] = "(/\w+/)"', answer))
    existing |= {"/" + verb for verb in re.findall(r'\{"(\w+)", MAIL_\w+, \w+\}', tree.text("src/status/request.c"))}
    existing |= set(re.findall(r'under\[\] = "(/\w+/)"', tree.text("src/status/request.c")))
    named = {i for i in items(part(tree, DAEMON, "Ss", "Status socket"), "Sy ") if i.startswith("/")}
    yield from both_ways(DAEMON, "request", named, existing)


def is_commands(path):
    return path.startswith("src/penstock") and path != "src/penstockd.c"


def manuals_have_every_environment_variable(tree):
    for manual, ours in ((COMMAND, is_commands), (DAEMON, lambda path: not is_commands(path))):
        code = "\n".join(tree.text(p) for p in tree.sources() if ours(p))
        existing = set(re.findall(r'getenv\("(\w+)"\)', code)) | {n for n, used in LIBRARIES.items() if re.search(used, code)}
        yield from both_ways(manual, "environment variable", items(part(tree, manual, "Sh", "ENVIRONMENT"), "Ev "), existing)


def options(tree, manual):
    return set(re.findall(r"Fl Fl ([\w-]+)", tree.text(manual)))


def commands(tree):
    """{name: the options in its usage} of those that this version has."""
    return {name: set(re.findall(r"--([\w-]+)", usage))
            for name, usage in re.findall(r'^    \{"(\w+)", "([^"]*)", ?\s*"', tree.text("src/penstock.c"), re.M)}


def manuals_have_every_command_and_option(tree):
    daemon = set(re.findall(r'strcmp\(argument, "--(\w+)"\)', tree.text("src/arguments.c")))
    yield from both_ways(DAEMON, "option", options(tree, DAEMON), daemon)
    has = commands(tree)
    common = set(re.findall(r'\{"(\w+)", \w+, NULL, OPTION_(?!GIVEN)', tree.text("src/penstock.c")))
    yield from both_ways(COMMAND, "command", set(re.findall(r"^\.It Cm (\w+)", tree.text(COMMAND), re.M)), set(has))
    yield from both_ways(COMMAND, "option", options(tree, COMMAND), common.union(*has.values()))


def usages_have_every_option_that_is_taken(tree):
    text = tree.text("src/penstock.c")
    options = dict(re.findall(r'\{"([\w-]+)", \w+, NULL, OPTION_GIVEN \+ (GIVEN_\w+)\}', text))
    for name, usage, taken in re.findall(r'^    \{"(\w+)", "([^"]*)",\s*"[^"]*",\s*penstock_\w+, \d+,\s*([\w |]+),', text, re.M):
        takes = {o for o, bit in options.items() if bit in taken.split(" | ")}
        yield from both_ways("src/penstock.c", f"option of {name}", set(re.findall(r"--([\w-]+)", usage)), takes)


# How each shell's file writes an option of a command: (file, pattern of a command, of an option)
COMPLETIONS = [
    ("conf/completion/penstock.bash", r"^        (\w+)\) options=\"([^\"]*)\"", r"--([\w-]+)"),
    ("conf/completion/_penstock", r"^        (\w+)\) _arguments(.*)", r"'--([\w-]+)\["),
    ("conf/completion/penstock.fish", r"__fish_seen_subcommand_from (\w+)'(.*)", r" -l ([\w-]+)"),
]
OFFERS = {"conf/completion/penstock.bash": r"'\'\) options=\"([\w ]+)\"", "conf/completion/_penstock": r"^        '([a-z]\w*):",
          "conf/completion/penstock.fish": r"__fish_use_subcommand -a (\w+)"}


def completions_have_every_command_and_option(tree):
    has = commands(tree)
    for path, of_command, of_option in COMPLETIONS:
        text = tree.text(path)
        offered = {word for found in re.findall(OFFERS[path], text, re.M) for word in found.split()}
        yield from both_ways(path, "command", offered, set(has))
        named = {}
        for command, rest in re.findall(of_command, text, re.M):
            named.setdefault(command, set()).update(re.findall(of_option, rest))
        for command, options in has.items():
            yield from both_ways(path, f"option of {command}", named.get(command, set()), options)


def manuals_are_clean_mdoc(tree):
    if not shutil.which("mandoc"):
        yield "man", 1, "can't be checked: mandoc is missing (Debian: mandoc)"
        return
    for manual in tree.files("man", ".1", ".5", ".8"):
        said = subprocess.run(["mandoc", "-Tlint", manual], cwd=tree.root, capture_output=True, text=True)
        for line in (said.stdout + said.stderr).splitlines():
            # Which other manuals are installed says nothing about ours.
            if "referenced manual not found" not in line and "outdated mandoc.db" not in line:
                yield manual, 1, line.split(": ", 1)[-1]


RULES = [
    manuals_have_every_exit_status,
    manuals_have_every_state,
    manuals_have_every_message_id,
    manuals_have_every_metric,
    manuals_have_every_outcome_of_events,
    manuals_have_every_label,
    manuals_name_only_members_that_documents_have,
    manuals_have_every_journal_field,
    manuals_have_every_request,
    manuals_have_every_environment_variable,
    manuals_have_every_command_and_option,
    usages_have_every_option_that_is_taken,
    completions_have_every_command_and_option,
    manuals_are_clean_mdoc,
]
