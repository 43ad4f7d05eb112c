// A substitution such as s/RE/TEXT/ of sed -E, applied to the names of tensors.
#pragma once

#include <safetensors/error.h>

#include <regex.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

class Substitution {
 public:
  // A longer name is refused: the time of a match grows with its length, and names come from strangers.
  static constexpr std::size_t kMaxName = 4096;  // bytes

  // Parses s/RE/TEXT/FLAGS with any delimiter. RE is an extended regular expression of POSIX. In TEXT, & is the whole
  // match and \1 to \9 are its groups. Flags: g (every match, not only the first) and i (upper and lower case are
  // equal). Error: invalid_argument, with a message without path.
  [[nodiscard]] static Result<Substitution> parse(std::string_view expression);

  // Returns the new name. Errors: invalid_argument (the name is too long or has a zero byte), out_of_memory (the match
  // needs too much).
  [[nodiscard]] Result<std::string> apply(std::string_view name) const;

 private:
  // A literal text, or a group of the match.
  struct Piece {
    std::string text;
    int group = -1;
  };
  struct Free {
    void operator()(regex_t* regex) const;
  };
  Substitution() = default;
  using Match = std::array<regmatch_t, 10>;
  void append_replacement(std::string_view name, const Match& match, std::string& result) const;
  Status parse_replacement(std::string_view text, char delimiter);

  std::unique_ptr<regex_t, Free> regex_;
  std::vector<Piece> pieces_;
  bool every_ = false;
};

}  // namespace safetensors::cli
