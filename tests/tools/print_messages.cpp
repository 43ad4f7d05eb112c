// Prints the library's message for each case of tests/data that it refuses, "NAME<TAB>MESSAGE", for update_messages.py.
#include <exception>
#include <iostream>

#include "support/case_file.h"

int main() {
  try {
    for (const cases::Case& c : cases::load_all(SAFETENSORS_TEST_DATA)) {
      const auto header = cases::parse(c);
      if (!header) std::cout << c.name << '\t' << header.error().message << '\n';
    }
    return std::cout.flush() ? 0 : 1;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
