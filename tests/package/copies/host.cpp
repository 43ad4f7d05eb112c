// Has a static copy of the library, and exports its symbols (-rdynamic). Loads plugins that have copies of their own.
// Usage: host PLUGIN... Prints the version of each copy. Fails if two copies have an address in common.
#include <dlfcn.h>

#include <cstdio>
#include <vector>

#include "copy.h"

int main(int argc, char** argv) {
  std::vector<Copy> copies = {this_copy()};
  for (int i = 1; i < argc; ++i) {
    void* const plugin = ::dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL);
    void* const function = plugin == nullptr ? nullptr : ::dlsym(plugin, "describe_copy");
    if (function == nullptr) return std::fprintf(stderr, "%s\n", ::dlerror()), 2;
    copies.push_back(reinterpret_cast<Copy (*)()>(function)());
  }
  int shared = 0;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (!copies[i].catches) return std::fprintf(stderr, "copy %zu does not catch its exception\n", i), 1;
    std::printf("%s\n", copies[i].version);
    for (std::size_t j = 0; j < i; ++j)
      if (copies[i].c_function == copies[j].c_function || copies[i].function == copies[j].function)
        ++shared, std::fprintf(stderr, "copies %zu and %zu are one\n", j, i);
  }
  return shared == 0 ? 0 : 1;
}
