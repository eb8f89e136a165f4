/* penstock_who: who runs the operator's command, for the journal's readers */
#include "penstock_who.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void penstock_who(char *who, size_t size) {
    const struct passwd *user = getpwuid(getuid());
    const char *behind = getenv("SUDO_USER");
    snprintf(who, size, "%s%s%s", user ? user->pw_name : "?", behind ? " for " : "", behind ? behind : "");
}
