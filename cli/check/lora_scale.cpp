// A key of alpha_pattern fits a module if it is the whole name, or its end after a dot. Almost all keys are names: they
// are looked up, once per part of the name of the module. The others are regular expressions, which RE2 matches: its
// time is linear and its memory has a limit, and configurations come from strangers. The first key that fits wins.
#include "lora_scale.h"

#if defined(SAFETENSORS_HAVE_RE2)
#include <re2/re2.h>
#endif

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace safetensors::cli {
namespace {

// Returns whether the key is used as a name. In an expression, a dot fits every character, but most keys are names.
bool is_literal(std::string_view key) {
  return key.find_first_of("\\^$*+?()[]{}|") == std::string_view::npos;
}

}  // namespace

#if defined(SAFETENSORS_HAVE_RE2)
struct LoraScales::Expression {
  std::size_t index;  // in alphas_
  std::unique_ptr<re2::RE2> expression;
};
#else
struct LoraScales::Expression {};
#endif

std::optional<double> parse_alpha(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool valid = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return valid ? std::optional(value) : std::nullopt;
}

LoraScales::LoraScales(const ModelConfig& config)
    : common_(parse_alpha(config.lora_alpha)), rank_stabilized_(config.lora_rank_stabilized.value_or(false)) {
  for (const auto& [key, alpha] : config.lora_alphas) {
    const std::size_t index = alphas_.size();
    alphas_.push_back(parse_alpha(alpha));
    if (is_literal(key)) {
      literal_.emplace(key, index);
      continue;
    }
#if defined(SAFETENSORS_HAVE_RE2)
    constexpr std::size_t kMaxExpressions = 1024;  // each is tried for every module
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(std::int64_t{256} << 10);
    auto expression = std::make_unique<re2::RE2>("(?:.*\\.)?(?:" + key + ")", options);
    if (expression->ok() && expressions_.size() < kMaxExpressions) {
      expressions_.push_back({index, std::move(expression)});
      continue;
    }
#endif
    if (!unknown_) unknown_ = key;
  }
}
LoraScales::LoraScales(LoraScales&&) noexcept = default;
LoraScales& LoraScales::operator=(LoraScales&&) noexcept = default;
LoraScales::~LoraScales() = default;

std::optional<double> LoraScales::alpha(std::string_view module) const {
  std::size_t first = alphas_.size();
  for (std::string_view end = module; !literal_.empty();) {
    if (const auto found = literal_.find(end); found != literal_.end()) first = std::min(first, found->second);
    const std::size_t dot = end.find('.');
    if (dot == std::string_view::npos) break;
    end.remove_prefix(dot + 1);
  }
#if defined(SAFETENSORS_HAVE_RE2)
  for (const Expression& one : expressions_) {
    if (one.index >= first) break;
    if (re2::RE2::FullMatch(module, *one.expression)) first = one.index;
  }
#endif
  return first < alphas_.size() ? alphas_[first] : common_;
}

double LoraScales::scale(std::string_view module, std::uint64_t rank) const {
  const std::optional<double> found = alpha(module);
  if (!found) return 1;
  const auto divisor = static_cast<double>(rank);
  return *found / (rank_stabilized_ ? std::sqrt(divisor) : divisor);
}

}  // namespace safetensors::cli
