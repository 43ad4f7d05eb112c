// The files that calls of the C interface find, in a folder of their own, and texts to give them.
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

  // As they were at first.
  void restore();
  // A path of a file, an index, a folder, a pattern, or of nothing. All lie in the folder.
  [[nodiscard]] std::string path(std::uint8_t choice) const;
  // A name, a piece of JSON, a whole file, or bytes of the input. Valid until the next call.
  [[nodiscard]] std::string_view bytes(std::uint8_t choice, Input& in);
  // Of a file, of a folder, or of nothing.
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
