// A substitution such as s/RE/TEXT/ of sed -E, applied to the names of tensors.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}

namespace safetensors::cli {

class Substitution {
 public:
#if defined(SAFETENSORS_HAVE_RE2)
  static constexpr bool kAvailable = true;
#else
  static constexpr bool kAvailable = false;
#endif
  static constexpr const char* kMissing = "this build has no RE2, which an EXPRESSION needs (use --map)";

  // A longer name is refused, because names come from strangers.
  static constexpr std::size_t kMaxName = 4096;  // bytes
  // With the flag g, each match may scan all bytes after the match before it: of `s/a*z|a/b/g`, each `a` of `aaaa`
  // scans the rest of the name for a `z`. So matches that may scan more than this times the name are refused. Names of
  // up to 255 bytes never are.
  static constexpr std::size_t kMaxScans = 128;

  // Parses s/RE/TEXT/FLAGS with any delimiter. RE is an extended regular expression of POSIX, in UTF-8. In TEXT, & is
  // the whole match and \1 to \9 are its groups. Flags: g (every match, not only the first) and i (upper and lower case
  // are equal). Errors, with a message without path: invalid_argument; unsupported (not kAvailable).
  [[nodiscard]] static Result<Substitution> parse(std::string_view expression);

  Substitution(Substitution&&) noexcept;
  Substitution& operator=(Substitution&&) noexcept;
  ~Substitution();

  // Returns the new name. Error: invalid_argument (the name is too long, or has too many matches).
  [[nodiscard]] Result<std::string> apply(std::string_view name) const;

 private:
  // A literal text, or a group of the match.
  struct Piece {
    std::string text;
    int group = -1;
  };
  Substitution();
  Status parse_replacement(std::string_view text, char delimiter);

  std::unique_ptr<re2::RE2> regex_;
  std::vector<Piece> pieces_;
  int groups_ = 1;  // number of groups that TEXT needs, with the whole match
  bool every_ = false;
};

}  // namespace safetensors::cli
