/* The name under which the parts of the command line speak, see runtime/command_common.h. */
#include "runtime/command_common.h"

const char hf__program[] = "holdfast-bench";
