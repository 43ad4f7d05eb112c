// A substitution such as s/RE/TEXT/ of sed, applied to the names of tensors.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

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

  // A longer name is refused: names come from strangers, and each of many matches may scan the rest of the name.
  static constexpr std::size_t kMaxName = 1024;  // bytes

  // Parses s/RE/TEXT/FLAGS with any delimiter. RE has the syntax of RE2. In TEXT, & is the whole match and \1 to \9 are
  // its groups. Flags: g (every match, not only the first) and i (upper and lower case are equal). Errors, with a
  // message without path: invalid_argument; unsupported (not kAvailable).
  [[nodiscard]] static Result<Substitution> parse(std::string_view expression);

  // Returns the new name. Error: invalid_argument (the name is too long).
  [[nodiscard]] Result<std::string> apply(std::string_view name) const;

 private:
  Substitution() = default;

  std::shared_ptr<const re2::RE2> regex_;
  std::string rewrite_;
  bool every_ = false;
};

}  // namespace safetensors::cli
