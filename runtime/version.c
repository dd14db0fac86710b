/* The version of the library that runs, which need not be the one whose header the caller was compiled with. */
#include "holdfast.h"

#define TEXT(number) #number
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *hf_version(void)
{
    return VERSION(HF_VERSION_MAJOR, HF_VERSION_MINOR, HF_VERSION_PATCH);
}
