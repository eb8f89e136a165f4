/* wiring: the configuration -> what each forwarder is started with */
#ifndef PENSTOCK_WIRING_H
#define PENSTOCK_WIRING_H

#include "config/config.h"
#include "forwarder/forwarder.h"

/* Borrows from config, owner and ended_fd; nothing is copied. */
void wiring_forwarder(const struct config *config, const struct config_forwarder *from, const char *owner, int ended_fd,
                      struct forwarder_options *ret_options);

#endif
