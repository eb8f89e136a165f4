/* mode: what source.c asks of a mode of tailing; private to source/ */
#include "source/mode.h"

#include <endian.h>
#include <string.h>

#include "base/log.h"

_Static_assert(MODE_HEAD_COLUMNS + TABLE_COLUMNS_MAX <= PGCONN_COLUMNS_MAX, "a row of a page fits");

int64_t mode_int8(struct span value) {
    uint64_t bits;
    ASSERT(value.len == sizeof bits);
    memcpy(&bits, value.data, sizeof bits);
    return (int64_t)be64toh(bits);
}

int mode_int4(struct span value) {
    uint32_t bits;
    ASSERT(value.len == sizeof bits);
    memcpy(&bits, value.data, sizeof bits);
    return (int)be32toh(bits);
}

bool mode_bool(struct span value) {
    return value.len == 1 && value.data[0] == 1;
}

enum mode_answer mode_failed(int r, struct error *reterr) {
    error_set(reterr, ERROR_RETRY, "reading the event table: %s", strerrordesc_np(-r));
    return MODE_FAILED;
}

enum mode_answer mode_misfit(struct error *reterr) {
    error_set(reterr, ERROR_RETRY, "the database's answer does not fit what was asked (two rows with one position, or too "
              "many transactions running?): connecting again");
    return MODE_FAILED;
}

/* The inspection has seen NOT NULL, but a table can be altered, and its children too. */
static enum mode_answer no_position(struct error *reterr) {
    error_set(reterr, ERROR_CONFIG, "a row has no position (NULL): looking at the table again");
    return MODE_FAILED;
}

enum mode_answer mode_take_row(struct mode *m, const struct columns *columns, int head_columns, int64_t *ret_position,
                               uint64_t *ret_bytes, struct error *reterr) {
    const struct span *values = pgconn_values(m->tail) + head_columns;
    *ret_bytes = 0;
    ASSERT((size_t)pgconn_columns(m->tail) == (size_t)head_columns + columns->count);
    for (size_t i = 0; i < columns->count; i++)
        *ret_bytes += values[i].len;
    if (span_absent(values[columns->position_at]))
        return no_position(reterr);
    *ret_position = mode_int8(values[columns->position_at]);
    m->row = (struct row){columns->list, values, columns->count};
    return MODE_GO_ON;
}
