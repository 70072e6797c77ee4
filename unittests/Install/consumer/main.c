/* Uses the installed C interface as far as it goes without a GPU. */
#include <kiln/kiln.h>

#include <stdio.h>
#include <string.h>

static int check(int condition, const char *what) {
  if (!condition)
    fprintf(stderr, "consumer: %s: %s\n", what, kiln_last_error_message());
  return condition ? 0 : 1;
}

int main(void) {
  int failures = 0;
  failures += check(kiln_abi_version() == KILN_ABI_VERSION, "ABI version");
  failures += check(strlen(kiln_version_string()) > 0, "version");

  /* A call that cannot succeed, on any machine: the error is told. */
  kiln_gemm_args args = kiln_gemm_args_init();
  kiln_status status = kiln_gemm(NULL, &args, NULL, NULL);
  failures += check(status == KILN_INVALID_ARGUMENT, "null engine");
  failures += check(strlen(kiln_last_error_message()) > 0, "message");
  failures += check(!strcmp(kiln_status_name(status), "invalid-argument"),
                    "name of the status");
  return failures;
}
