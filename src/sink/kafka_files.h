/* kafka_files: the files that a connection's properties name: can they be read? */
#ifndef PENSTOCK_SINK_KAFKA_FILES_H
#define PENSTOCK_SINK_KAFKA_FILES_H

#include "base/error.h"
#include "base/span.h"

/* librdkafka says that a file can't be used, but not which. Not every property names one; value absent: it stands
 * elsewhere. 0; -EINVAL with *reterr: the path, and why it can't be read now; -ENOMEM. */
int kafka_files_check(struct span name, struct span value, struct error *reterr) MUST_CHECK;

#endif
