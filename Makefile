# Makefile: builds Penstock from what configure found (config.mk)
#
#   make                 penstockd and penstock, below build/
#   make check           all tests
#   make SANITIZE=address,undefined check-unit
#   make install DESTDIR=…

ifeq ($(wildcard config.mk),)
$(error run ./configure first (autoconf makes it from configure.ac))
endif
include config.mk

comma := ,
# make V=1 shows the commands
Q = $(if $(V),,@)
SANITIZE ?=
BUILD ?= build$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))

WARNINGS = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
  -Wpointer-arith -Wwrite-strings -Wundef -Wformat=2 -Wvla -Wimplicit-fallthrough -Wswitch-enum \
  -Wno-missing-field-initializers -Wno-format-nonliteral -Wno-format-truncation
ifeq ($(WERROR),yes)
WARNINGS += -Werror
endif

CPPFLAGS += -D_GNU_SOURCE -DPENSTOCK_VERSION='"$(VERSION)"' -Isrc
ALL_CFLAGS = -std=gnu17 $(WARNINGS) -fno-common -fstack-protector-strong -pthread $(LIB_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = -pthread $(LDFLAGS)
ifneq ($(SANITIZE),)
ALL_CFLAGS += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all -g
ALL_LDFLAGS += -fsanitize=$(SANITIZE)
endif

MAINS = src/penstockd.c src/penstock.c
ROOMS = $(filter-out $(MAINS),$(sort $(wildcard src/*.c src/*/*.c)))
ROOM_OBJECTS = $(ROOMS:%.c=$(BUILD)/%.o)
UNITS = $(sort $(wildcard tests/unit/test_*.c tests/sim/test_*.c))
UNIT_PROGRAMS = $(UNITS:tests/%.c=$(BUILD)/tests/%)
PROGRAMS = $(if $(wildcard src/penstockd.c),$(BUILD)/penstockd) $(if $(wildcard src/penstock.c),$(BUILD)/penstock)

.PHONY: all check check-unit clean distclean
.SECONDARY:
all: $(PROGRAMS)

$(BUILD)/libpenstock.a: $(ROOM_OBJECTS)
	@rm -f $@
	$(Q)$(AR) rcs $@ $(ROOM_OBJECTS)

$(BUILD)/%.o: %.c config.mk
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%.o: tests/%.c config.mk
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests $(ALL_CFLAGS) $(CHECK_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/penstockd: $(BUILD)/src/penstockd.o $(BUILD)/libpenstock.a
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/penstock: $(BUILD)/src/penstock.o $(BUILD)/libpenstock.a
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libpenstock.a
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LIBS)

# Every unit and simulation program; each prints Check's own closing line.
check-unit: $(UNIT_PROGRAMS)
	@for t in $(UNIT_PROGRAMS); do $$t || exit 1; done

clean:
	rm -rf build build-*
distclean: clean
	rm -rf config.mk config.log config.status configure autom4te.cache build-aux

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
