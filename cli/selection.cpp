// The values of an option that is given several times are alternatives: a tensor needs to match one pattern of --match
// and one dtype of --dtype. --exclude wins over --match. If no tensor is chosen, the options are applied one after the
// other to find the first one that leaves no tensor, for the error.
#include "selection.h"

#include "text/text.h"

#include <safetensors/dtype.h>
#include <safetensors/error.h>

#include "base/glob.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace safetensors::cli {
namespace {

bool any_matches(const std::vector<std::string>& globs, std::string_view name) {
  return std::ranges::any_of(globs, [&](const std::string& glob) { return base::glob_match(glob, name); });
}

// Returns the parts between the commas of all lists.
std::vector<std::string_view> list_parts(const std::vector<std::string>& lists) {
  std::vector<std::string_view> parts;
  for (const std::string& list : lists) {
    for (const std::string_view part : split(list, ',')) parts.push_back(part);
  }
  return parts;
}

// Returns the dtypes of the tensors, each once: "F32, BF16".
std::string dtypes_text(const std::vector<const TensorInfo*>& tensors) {
  std::vector<Dtype> found;
  for (const TensorInfo* tensor : tensors) {
    if (std::ranges::find(found, tensor->dtype) == found.end()) found.push_back(tensor->dtype);
  }
  return joined_texts(found, [](Dtype dtype) { return to_string(dtype); });
}

std::string layers_text(const std::vector<const TensorInfo*>& tensors) {
  std::optional<std::uint64_t> first;
  std::uint64_t last = 0;
  for (const TensorInfo* tensor : tensors) {
    const auto layer = parse_number(layer_part(tensor->name));
    if (!layer) continue;
    first = std::min(first.value_or(*layer), *layer);
    last = std::max(last, *layer);
  }
  if (!first) return "no name has a part of digits between dots";
  return *first == last ? formatted("found layer {}", last) : formatted("found layers {} to {}", *first, last);
}

std::string with_commas(const std::vector<std::string>& lists) {
  return printable(joined_texts(lists, std::identity(), ","));
}

}  // namespace

Selection::Selection(const Arguments& given, std::span<const std::string> names)
    : match_(given.values("match")),
      exclude_(given.values("exclude")),
      dtype_texts_(given.values("dtype")),
      layer_texts_(given.values("layers")) {
  match_.insert(match_.end(), names.begin(), names.end());
  for (const std::string_view part : list_parts(dtype_texts_)) {
    if (part.empty()) throw UsageError("--dtype is a list of dtypes, such as F32 or bf16,f16");
    dtypes_.push_back(dtype_of("--dtype", part));
  }
  for (const std::string_view part : list_parts(layer_texts_)) {
    const std::size_t dash = part.find('-');
    const auto first = parse_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1));
    if (!first || !last)
      throw UsageError(formatted("--layers is a list of layers and ranges, such as 0-3,7, not `{}`", printable(part)));
    if (*first > *last) throw UsageError(formatted("--layers {}: the range ends before it begins", printable(part)));
    layers_.emplace_back(*first, *last);
  }
}

bool Selection::chooses() const {
  return !match_.empty() || !dtype_texts_.empty() || !layer_texts_.empty();
}

bool Selection::selects(const TensorInfo& tensor) const {
  return selects_name(tensor.name) && selects_dtype(tensor.dtype) && selects_layer(tensor.name);
}

bool Selection::selects_name(std::string_view name) const {
  return (match_.empty() || any_matches(match_, name)) && !any_matches(exclude_, name);
}

bool Selection::selects_dtype(Dtype dtype) const {
  return dtypes_.empty() || std::ranges::find(dtypes_, dtype) != dtypes_.end();
}

bool Selection::selects_layer(std::string_view name) const {
  if (layers_.empty()) return true;
  const auto layer = parse_number(layer_part(name));
  return layer && std::ranges::any_of(
                      layers_, [&](const auto& range) { return range.first <= *layer && *layer <= range.second; });
}

const std::string* Selection::unmatched(std::span<const TensorInfo* const> tensors) const {
  for (const std::vector<std::string>* const globs : {&match_, &exclude_}) {
    for (const std::string& glob : *globs) {
      if (std::ranges::none_of(tensors, [&](const TensorInfo* one) { return base::glob_match(glob, one->name); }))
        return &glob;
    }
  }
  return nullptr;
}

std::string Selection::nothing(std::vector<const TensorInfo*> tensors, std::string_view where) const {
  const auto leaves_none = [&](const auto& selects) {
    std::erase_if(tensors, [&](const TensorInfo* one) { return !selects(*one); });
    return tensors.empty();
  };
  if (tensors.empty()) return formatted("there is no tensor{}", where);
  if (leaves_none([&](const TensorInfo& one) { return match_.empty() || any_matches(match_, one.name); })) {
    std::string hint;
    for (const std::string& glob : match_) {
      if (hint.empty()) hint = pattern_hint(glob);
    }
    return formatted("no tensor's name matches{}{}", where, hint);
  }
  if (leaves_none([&](const TensorInfo& one) { return selects_name(one.name); }))
    return formatted("--exclude leaves no tensor{}", where);
  const std::string_view named = match_.empty() && exclude_.empty() ? "" : " with such a name";
  const std::string dtypes = dtypes_text(tensors);
  if (leaves_none([&](const TensorInfo& one) { return selects_dtype(one.dtype); }))
    return formatted("no tensor{} matches --dtype {}{} (found {})", named, with_commas(dtype_texts_), where, dtypes);
  return formatted("no tensor{} matches --layers {}{} ({})", named, with_commas(layer_texts_), where,
                   layers_text(tensors));
}

Result<std::vector<Listed>> chosen_tensors(const Selection& selection, const Input& input) {
  std::vector<Listed> chosen = input.tensors();
  std::erase_if(chosen, [&](const Listed& one) { return !selection.selects(*one.info); });
  if (!chosen.empty() || selection.empty()) return chosen;
  return fault(Errc::not_found, selection.nothing(infos(input)));
}

std::string pattern_hint(std::string_view glob) {
  if (glob.empty() || glob.find_first_of("*?[") != std::string_view::npos) return {};
  return formatted(" (a pattern is for the whole name: try '*{}*')", printable(glob));
}

std::string_view layer_part(std::string_view name) {
  const std::vector<std::string_view> parts = split(name, '.');
  const auto found = std::ranges::find_if(parts, has_only_digits);
  return found == parts.end() ? std::string_view() : *found;
}

std::optional<Dtype> dtype_named(std::string_view text) {
  using Word = std::pair<std::string_view, std::string_view>;
  static constexpr Word kWords[] = {{"DOUBLE", "F64"},   {"FLOAT", "F32"},    {"SINGLE", "F32"},
                                    {"HALF", "F16"},     {"FP8", "F8_E4M3"},  {"FLOAT8", "F8_E4M3"},
                                    {"E4M3", "F8_E4M3"}, {"E5M2", "F8_E5M2"}, {"FLOAT8_E4M3FN", "F8_E4M3"}};
  static constexpr Word kBeginnings[] = {{"BFLOAT", "BF"}, {"FLOAT", "F"}, {"FP", "F"}, {"UINT", "U"}, {"INT", "I"}};
  std::string upper(text);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  const auto* const word = std::ranges::find(kWords, std::string_view(upper), &Word::first);
  if (word != std::end(kWords)) return parse_dtype(word->second);
  const auto* const begin =
      std::ranges::find_if(kBeginnings, [&](const Word& one) { return upper.starts_with(one.first); });
  if (begin != std::end(kBeginnings)) upper.replace(0, begin->first.size(), begin->second);
  return parse_dtype(upper);
}

Dtype dtype_of(std::string_view option, std::string_view text) {
  if (const std::optional<Dtype> dtype = dtype_named(text)) return *dtype;
  throw UsageError(
      formatted("{}: unknown dtype `{}` (known: {}; half, float, double, bfloat16, fp16, fp8, int8 and such also work)",
                option, printable(text), joined_texts(all_dtypes(), [](Dtype dtype) { return to_string(dtype); })));
}

}  // namespace safetensors::cli
