// Uses the installed C++ wrapper as far as it goes without a GPU.
#include <kiln/kiln.hpp>

#include <cstdio>
#include <cstring>

int main() {
  kiln_engine_options options = KILN_INIT(kiln_engine_options);
  options.device_model = "no-such-device";
  kiln_engine *engine = nullptr;
  kiln_status status = kiln_engine_create(&options, &engine);
  if (status == KILN_SUCCESS || engine) {
    std::fprintf(stderr, "consumer: an unknown device was accepted\n");
    return 1;
  }
  if (!std::strstr(kiln_last_error_message(), "no-such-device")) {
    std::fprintf(stderr, "consumer: the message hides the value: %s\n",
                 kiln_last_error_message());
    return 1;
  }
  return kiln_abi_version() == KILN_ABI_VERSION ? 0 : 1;
}
