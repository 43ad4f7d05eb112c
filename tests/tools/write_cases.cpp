// Writes the cases of tests/data for verdicts.cpp, and the verdicts that it must print.
// usage: write_cases CASES VERDICTS
//
// Each case is a line "NAME OPTIONS MAX_HEADER_BYTES FILE_SIZE DATA_SIZE COUNT", and then COUNT bytes.
#include <exception>
#include <fstream>
#include <iostream>

#include "support/case_file.h"

namespace {

// The flags of the options, as bits.
int flags_of(const safetensors::ParseOptions& options) {
  return (options.allow_leading_whitespace ? 1 : 0) | (options.accept.unknown_dtypes ? 2 : 0) |
         (options.accept.unused_bytes ? 4 : 0);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  try {
    std::ofstream out(arguments[1], std::ios::binary);
    std::ofstream verdicts(arguments[2], std::ios::binary);
    for (const cases::Case& c : cases::load_all(SAFETENSORS_TEST_DATA)) {
      out << c.name << ' ' << flags_of(c.options) << ' ' << c.options.max_header_bytes << ' ' << c.file_size.value_or(0)
          << ' ' << c.data_size << ' ' << c.bytes.size() << '\n'
          << c.bytes;
      verdicts << c.name << ' ' << c.code;
      if (c.code != "ok") verdicts << ' ' << c.offset << ' ' << c.message;
      verdicts << '\n';
    }
    return out.flush() && verdicts.flush() ? 0 : 1;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
