/* A small checker of XML: enough to say that a page that we write is well-formed. */
#ifndef HF_TESTS_MARKUP_H
#define HF_TESTS_MARKUP_H

#include <stdbool.h>
#include <stddef.h>

/* One root element, tags that match, attributes in double quotes and none twice, characters escaped. NULL, or a sentence that says what
 * is wrong and where (it lives until the process ends). */
const char *hf_test_markup_fault(const char *text);
/* How often `part` stands in the text. */
size_t hf_test_occurrences(const char *text, const char *part);

#endif
