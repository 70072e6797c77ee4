// Uses the installed C++ wrapper, as far as that works without a GPU.
#include <kiln/kiln.hpp>

#include <cstdio>

int main() {
  kiln::EngineOptions options;
  options.device_model = "no-such-device";
  auto engine = kiln::Engine::create(options);
  if (engine.ok()) {
    std::fprintf(stderr, "consumer: an unknown device was accepted\n");
    return 1;
  }
  const std::string &message = engine.status().message();
  if (message.find("no-such-device") == std::string::npos) {
    std::fprintf(stderr, "consumer: the message hides the value: %s\n",
                 message.c_str());
    return 1;
  }
  return kiln_abi_version() == KILN_ABI_VERSION ? 0 : 1;
}
