# Makefile: builds Penstock from what configure found (config.mk)
#
#   make                    penstockd and penstock, below build/
#   make check              all tests
#   make check-unit         the fast ones: no servers
#   make SANITIZE=address,undefined check-unit     (or SANITIZE=thread)
#   make fuzz               many wrong requests at the endpoints, under sanitizers
#   make bench              the figures, measured
#   make install DESTDIR=…  make uninstall DESTDIR=…
#   make dist               a release tarball: builds without autoconf
#
# V=1 shows the commands.

ifeq ($(wildcard config.mk),)
ifeq ($(filter clean distclean maintainer-clean,$(MAKECMDGOALS)),)
$(error run ./configure first (autoconf makes it from configure.ac))
endif
else
include config.mk
endif

comma := ,
Q = $(if $(V),,@)
SANITIZE ?=
BUILD ?= build$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))

# --- flags ---

WARNINGS = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
  -Wpointer-arith -Wwrite-strings -Wundef -Wformat=2 -Wvla -Wimplicit-fallthrough -Wswitch-enum \
  -Wno-unknown-warning-option -Wno-missing-field-initializers -Wno-format-nonliteral -Wno-format-truncation
ifeq ($(WERROR),yes)
WARNINGS += -Werror
endif

ALL_CPPFLAGS = -D_GNU_SOURCE -DPENSTOCK_VERSION='"$(VERSION)"' -DPENSTOCK_SYSCONFDIR='"$(sysconfdir)"' -Isrc
ALL_CFLAGS = -std=gnu17 $(WARNINGS) -fno-common -fstack-protector-strong -pthread $(LIB_CFLAGS)
ALL_LDFLAGS = -pthread
ifneq ($(SANITIZE),)
ALL_CFLAGS += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all -g
ALL_LDFLAGS += -fsanitize=$(SANITIZE)
else
# Each object serves twice: the programs are optimised as a whole, the tests replace functions when they are linked.
ALL_CFLAGS += -fPIE $(LTO_CFLAGS)
WHOLE = $(LTO_CFLAGS)
PIECEWISE = $(if $(LTO_CFLAGS),-fno-lto)
ALL_LDFLAGS += -pie -Wl,-z,relro,-z,now
# the library refuses to fortify what is not optimised
ALL_CPPFLAGS += $(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif
# the builder's own come last, so that they win
ALL_CPPFLAGS += $(CPPFLAGS)
ALL_CFLAGS += $(CFLAGS)
ALL_LDFLAGS += $(LDFLAGS)

# --- what there is ---

MAINS = $(wildcard src/penstockd.c src/penstock.c)
ROOMS = $(filter-out $(MAINS),$(sort $(wildcard src/*.c src/*/*.c)))
UNITS = $(sort $(wildcard tests/unit/test_*.c tests/sim/test_*.c))
BENCHES = $(sort $(wildcard tests/bench/*.c))
# programs for a real server, which stories of tests/integration build and run
REALS = $(sort $(wildcard tests/integration/test_*.c))
# what several of them share: tests/unit/fail_alloc.c, a simulated world, …
SUPPORT = $(filter-out $(UNITS) $(REALS),$(sort $(wildcard tests/unit/*.c tests/sim/*.c tests/integration/*.c)))

PROGRAMS = $(MAINS:src/%.c=$(BUILD)/%)
UNIT_PROGRAMS = $(UNITS:%.c=$(BUILD)/%)
BENCH_PROGRAMS = $(BENCHES:%.c=$(BUILD)/%)
REAL_PROGRAMS = $(REALS:%.c=$(BUILD)/%)
ROOM_OBJECTS = $(ROOMS:%.c=$(BUILD)/%.o)
OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(MAINS) $(ROOMS) $(UNITS) $(BENCHES) $(REALS) $(SUPPORT))

.PHONY: all check check-unit fuzz bench fresh install uninstall dist clean distclean maintainer-clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:
all: $(PROGRAMS)

# --- building ---

# A file whose content is $(2), touched only when that changes: other flags or
# another list of files make again what was made from it.
define remember
$(1): FORCE
	@mkdir -p $$(@D)
	@printf '%s\n' '$(subst ','\'',$(2))' | cmp -s - $$@ || printf '%s\n' '$(subst ','\'',$(2))' >$$@
endef
$(eval $(call remember,$(BUILD)/flags,$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS)))
$(eval $(call remember,$(BUILD)/rooms,$(ROOMS) $(SUPPORT)))

$(BUILD)/libpenstock.a: $(ROOM_OBJECTS) $(BUILD)/rooms
	@rm -f $@
	$(Q)$(AR) rcs $@ $(ROOM_OBJECTS)

$(BUILD)/libtests.a: $(SUPPORT:%.c=$(BUILD)/%.o) $(BUILD)/rooms
	@rm -f $@
	$(Q)$(AR) rcs $@ $(SUPPORT:%.c=$(BUILD)/%.o)

$(BUILD)/src/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%.o: tests/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) -Itests $(CHECK_CFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(PROGRAMS): $(BUILD)/%: $(BUILD)/src/%.o $(BUILD)/libpenstock.a
	$(Q)$(CC) $(WHOLE) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# tests/unit/fail_alloc.h; and what a single program lets fail or listens to
WRAPPED = malloc calloc realloc strdup strndup
$(BUILD)/tests/unit/test_dial: private WRAPPED += pthread_create
$(BUILD)/tests/unit/test_log: private WRAPPED += sd_journal_sendv
$(UNIT_PROGRAMS) $(REAL_PROGRAMS): %: %.o $(BUILD)/libtests.a $(BUILD)/libpenstock.a
	$(Q)$(CC) $(PIECEWISE) $(ALL_LDFLAGS) $(WRAPPED:%=-Wl,--wrap=%) -o $@ $< \
	  -Wl,--start-group $(BUILD)/libtests.a $(BUILD)/libpenstock.a $(CHECK_LIBS) -Wl,--end-group $(LIBS)

$(BENCH_PROGRAMS): %: %.o $(BUILD)/libpenstock.a
	$(Q)$(CC) $(PIECEWISE) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# --- testing ---

check: all
	$(Q)tests/run

# Every unit and simulation program; each prints Check's own closing line.
check-unit: $(UNIT_PROGRAMS)
	@for t in $(UNIT_PROGRAMS); do $$t || exit 1; done

# Many wrong requests at the endpoints, under AddressSanitizer and UBSan: PENSTOCK_FUZZ_REQUESTS=100000, PENSTOCK_FUZZ_SEED=1.
fuzz:
	$(Q)$(MAKE) --no-print-directory SANITIZE=address,undefined build-address-undefined/tests/unit/test_endpoints
	$(Q)PENSTOCK_FUZZ_REQUESTS=$${PENSTOCK_FUZZ_REQUESTS:-100000} CK_FORK=no build-address-undefined/tests/unit/test_endpoints

bench: all $(BENCH_PROGRAMS)
	$(Q)tests/bench/run

# In a bare Debian 12 and 13: an hour each. Needs root.
fresh:
	$(Q)tests/fresh bookworm
	$(Q)tests/fresh trixie

# --- installing ---

D = $(DESTDIR)
libdir_ = $(prefix)/lib
config_dir = $(sysconfdir)/penstock
unit_file = $(systemdsystemunitdir)/penstockd.service
sysusers_file = $(libdir_)/sysusers.d/penstock.conf
tmpfiles_file = $(libdir_)/tmpfiles.d/penstock.conf
catalog_file = $(libdir_)/systemd/catalog/penstock.catalog
MAN = $(wildcard man/*.[1-8])
man_file = $(mandir)/man$(subst .,,$(suffix $(1)))/$(notdir $(1))
# What each shell completes for penstock(1), and where it looks for that.
completion_files = conf/completion/penstock.bash=$(datarootdir)/bash-completion/completions/penstock \
  conf/completion/_penstock=$(datarootdir)/zsh/site-functions/_penstock \
  conf/completion/penstock.fish=$(datarootdir)/fish/vendor_completions.d/penstock.fish
from = $(firstword $(subst =, ,$(1)))
to = $(lastword $(subst =, ,$(1)))
fill_in = sed -e 's|@sbindir@|$(sbindir)|g' -e 's|@bindir@|$(bindir)|g' -e 's|@sysconfdir@|$(sysconfdir)|g' \
  -e 's|@service_type@|$(SERVICE_TYPE)|' $(if $(filter notify-reload,$(SERVICE_TYPE)),-e '/kill -HUP/d')

# A configuration that is there is somebody's: the new one is laid beside it.
install: all
	install -d $(D)$(sbindir) $(D)$(bindir) $(D)$(systemdsystemunitdir) $(D)$(dir $(sysusers_file)) \
	  $(D)$(dir $(tmpfiles_file)) $(D)$(dir $(catalog_file))
	install -m 0755 $(BUILD)/penstockd $(D)$(sbindir)/penstockd
	install -m 0755 $(BUILD)/penstock $(D)$(bindir)/penstock
	$(foreach m,$(MAN),install -D -m 0644 $(m) $(D)$(call man_file,$(m)) &&) true
	$(foreach c,$(completion_files),install -D -m 0644 $(call from,$(c)) $(D)$(call to,$(c)) &&) true
	$(fill_in) systemd/penstockd.service.in >$(D)$(unit_file)
	$(fill_in) systemd/penstock.tmpfiles.in >$(D)$(tmpfiles_file)
	chmod 0644 $(D)$(unit_file) $(D)$(tmpfiles_file)
	install -m 0644 systemd/penstock.sysusers $(D)$(sysusers_file)
	install -m 0644 systemd/penstock.catalog $(D)$(catalog_file)
	install -d -m 0750 $(D)$(config_dir)
	@new=$(D)$(config_dir)/penstock.yaml; \
	if cmp -s conf/penstock.yaml $$new; then :; \
	else if [ -e $$new ]; then echo "$$new is kept; the new one is beside it as penstock.yaml.new"; new=$$new.new; fi; \
	install -m 0640 conf/penstock.yaml $$new; fi
	@[ -n "$(D)" ] || echo "now: systemd-sysusers && systemd-tmpfiles --create && journalctl --update-catalog && systemctl daemon-reload"

uninstall:
	rm -f $(D)$(sbindir)/penstockd $(D)$(bindir)/penstock $(foreach m,$(MAN),$(D)$(call man_file,$(m)))
	rm -f $(foreach c,$(completion_files),$(D)$(call to,$(c)))
	rm -f $(D)$(unit_file) $(D)$(tmpfiles_file) $(D)$(sysusers_file) $(D)$(catalog_file) $(D)$(config_dir)/penstock.yaml.new
	@if cmp -s conf/penstock.yaml $(D)$(config_dir)/penstock.yaml; then rm $(D)$(config_dir)/penstock.yaml; fi
	@rmdir $(D)$(config_dir) 2>/dev/null || [ ! -d $(D)$(config_dir) ] || echo "$(D)$(config_dir) is kept: it was changed"

# --- releasing ---

# What git knows (in a tarball: what its MANIFEST names), plus configure. One
# time for all files: the same commit gives the same bytes.
release = penstock-$(VERSION)
release_time = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y configure))
dist: configure
	@rm -rf $(BUILD)/dist && mkdir -p $(BUILD)/dist
	@{ if [ -e .git ]; then git ls-files; echo configure; echo MANIFEST; else cat MANIFEST; fi; } | sort -u >$(BUILD)/dist/MANIFEST
	@grep -v '^MANIFEST$$' $(BUILD)/dist/MANIFEST | tar -cf - -T - | { mkdir $(BUILD)/dist/$(release) && tar -xf - -C $(BUILD)/dist/$(release); }
	@cp $(BUILD)/dist/MANIFEST $(BUILD)/dist/$(release)/
	@tar -C $(BUILD)/dist --sort=name --owner=0 --group=0 --numeric-owner --mtime=@$(release_time) -cf - $(release) | gzip -9n >$(release).tar.gz
	@rm -rf $(BUILD)/dist
	@echo $(release).tar.gz

# configure and config.mk follow what they are made from
ifneq ($(wildcard config.status),)
configure: configure.ac
	autoconf
config.status: configure
	./config.status --recheck
config.mk: config.mk.in config.status
	./config.status --file=config.mk
endif

clean:
	rm -rf build build-*
distclean: clean
	rm -rf config.mk config.log config.status configure~ autom4te.cache penstock-*.tar.gz
# a release has no other way to get at it
maintainer-clean: distclean
	rm -f configure

-include $(OBJECTS:.o=.d)
