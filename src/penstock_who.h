/* penstock_who: who runs the operator's command, for the journal's readers */
#ifndef PENSTOCK_PENSTOCK_WHO_H
#define PENSTOCK_PENSTOCK_WHO_H

#include <stddef.h>

/* The user, and who stands behind sudo(8): "root for alice". Cut to fit; for people, not to be believed. */
void penstock_who(char *who, size_t size);

#endif
