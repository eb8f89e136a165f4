/* destination: where one event goes, resolved: the fields of its kind of sink, and headers */
#include "event/destination.h"

void destination_init(struct destination *d) {
    *d = (struct destination){.storage = BUF_INIT(DESTINATION_BYTES_MAX)};
}

void destination_done(struct destination *d) {
    buf_done(&d->storage);
    *d = (struct destination){0};
}
