/* arguments: the command line of penstockd */
#ifndef PENSTOCK_ARGUMENTS_H
#define PENSTOCK_ARGUMENTS_H

enum arguments {
    ARGUMENTS_RUN,
    ARGUMENTS_ANSWERED, /* help or version: printed */
    ARGUMENTS_WRONG,    /* said on standard error */
};

/* ARGUMENTS_RUN: *ret_path is the configuration's if one was given, else untouched; it points into argv. */
enum arguments arguments_read(int argc, char **argv, const char **ret_path);

#endif
