/* nearest: which of the valid words was probably meant */
#include "config/nearest.h"

#include <stdint.h>

#define NEAREST_WORD_MAX 63 /* longer ones are not compared */

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static char fold(char c) {
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '-' || c == '.' ? '_' : c;
}

/* Insertions, deletions, replacements and swapped neighbours (Damerau-Levenshtein, optimal string alignment). */
static size_t edit_distance(struct span a, struct span b) {
    size_t rows[3][NEAREST_WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b.len; j++)
        last[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            bool same = fold(a.data[i - 1]) == fold(b.data[j - 1]);
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + !same);
            if (i > 1 && j > 1 && fold(a.data[i - 1]) == fold(b.data[j - 2]) &&
                fold(a.data[i - 2]) == fold(b.data[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[b.len];
}

void nearest_try(struct nearest *n, struct span candidate) {
    if (n->word.len == 0 || n->word.len > NEAREST_WORD_MAX || candidate.len > NEAREST_WORD_MAX)
        return;
    size_t distance = edit_distance(n->word, candidate);
    if (distance > least(3, 1 + candidate.len / 4)) /* a third wrong is another word */
        return;
    if (!span_absent(n->found) && n->distance <= distance)
        return;
    n->found = candidate;
    n->distance = distance;
}
