// The files that calls of the C interface can open, in a folder of their own, and the texts that calls take as
// arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "input.h"

namespace fuzz {

class Files {
 public:
  // Made at the first call, removed when the program ends.
  static Files& get();

  // Restores the files to their first state.
  void restore();
  // The path of a file, an index or a folder, a pattern, or a path that does not exist. All are in the folder.
  [[nodiscard]] std::string path(std::uint8_t choice) const;
  // A name, a piece of JSON, a whole file, or bytes of the input. Valid until the next call.
  [[nodiscard]] std::string_view bytes(std::uint8_t choice, Input& in);
  // The descriptor of a file or of a folder, or an invalid one.
  [[nodiscard]] int descriptor(std::uint64_t choice) const;
  [[nodiscard]] const std::string& whole() const { return whole_; }

  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

 private:
  Files();
  ~Files();

  std::string folder_;
  std::string whole_;
  std::string drawn_;
  int file_ = -1;
  int directory_ = -1;
};

}  // namespace fuzz
