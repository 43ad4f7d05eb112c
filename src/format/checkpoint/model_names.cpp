// Reads a name from its end, because a prefix may hold anything: also numbers, variants and `.safetensors`. Sets are
// groups of equal names without their numbers. The limit of the count bounds the memory, because a name of a stranger
// can claim any count.
#include "format/checkpoint/model_names.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/printable.h"
#include "format/checkpoint/shard_index.h"

namespace safetensors::format {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kOf = "-of-";
constexpr std::string_view kGeneration = "-gen";
constexpr std::string_view kIndexEnd = ".index.json";
constexpr std::string_view kKnownStems[] = {"model", "diffusion_pytorch_model"};  // the first that is there counts
constexpr std::size_t kDigitsOfNumber = 5;                                        // at least
constexpr std::uint64_t kMaxCount = 99'999;

bool take_end(std::string_view& name, std::string_view end) noexcept {
  if (name.size() <= end.size() || !name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  return true;
}

// Removes a number of at least five digits, and the text before it, from the end of the name. Returns the digits, or an
// empty text if the name does not end so.
std::string_view take_number(std::string_view& name, std::string_view before) noexcept {
  const std::size_t begin = name.find_last_not_of(kDigits) + 1;
  const std::string_view digits = name.substr(begin);
  if (digits.size() < kDigitsOfNumber || !name.substr(0, begin).ends_with(before)) return {};
  name = name.substr(0, begin - before.size());
  return digits;
}

// Removes the variant from the end of `model-00001-of-00003.fp16`.
std::string_view take_variant(std::string_view& name) noexcept {
  const std::size_t of = name.rfind(kOf);
  const std::size_t dot = of == name.npos ? of : name.find_first_not_of(kDigits, of + kOf.size());
  if (dot == name.npos || name[dot] != '.') return {};
  const std::string_view variant = name.substr(dot + 1);
  if (!variant.empty()) name = name.substr(0, dot);
  return variant;
}

// "model.fp16" is a variant of "model", but "v1.5" is not a variant of "v1": a digit begins a version.
bool is_variant(std::string_view stem, std::string_view plain) noexcept {
  const std::size_t dot = plain.size();
  return stem.size() > dot + 1 && stem.starts_with(plain) && stem[dot] == '.' &&
         kDigits.find(stem[dot + 1]) == kDigits.npos;
}

// Returns the parts of a name that belongs to a set, or nullopt.
std::optional<ShardName> counted_shard(std::string_view name) noexcept {
  const std::optional<ShardName> shard = parse_shard_name(name);
  if (!shard) return std::nullopt;
  const std::optional<std::uint64_t> number = base::to_integer(shard->number);
  const std::optional<std::uint64_t> count = base::to_integer(shard->count);
  return number && count && *count <= kMaxCount && *number <= *count ? shard : std::nullopt;
}

std::string padded(std::size_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return base::concat({std::string(digits - std::min(digits, text.size()), '0'), text});
}

}  // namespace

std::string ModelName::stem() const {
  std::string stem(prefix);
  if (!variant.empty()) stem.append(".").append(variant);
  return stem;
}

std::optional<ModelName> parse_index_name(std::string_view name) noexcept {
  constexpr std::string_view kIndex = "index.";
  constexpr std::string_view kJson = ".json";
  const std::size_t begin = name.rfind(".safetensors.");
  if (begin == 0 || begin == name.npos) return std::nullopt;
  const std::string_view prefix = name.substr(0, begin);
  std::string_view rest = name.substr(begin + kShardExtension.size());
  if (rest == kIndexEnd) return ModelName{prefix, {}};
  rest.remove_prefix(1);
  if (take_end(rest, kIndexEnd)) return ModelName{prefix, rest};
  if (!rest.starts_with(kIndex)) return std::nullopt;
  rest.remove_prefix(kIndex.size());
  return take_end(rest, kJson) ? std::optional(ModelName{prefix, rest}) : std::nullopt;
}

std::optional<ShardName> parse_shard_name(std::string_view name) noexcept {
  if (!take_end(name, kShardExtension)) return std::nullopt;
  ShardName shard;
  shard.variant = take_variant(name);
  shard.count = take_number(name, kOf);
  if (!shard.count.empty()) shard.number = take_number(name, "-");
  if (shard.number.empty()) return std::nullopt;
  shard.generation = take_number(name, kGeneration);
  shard.before = name;
  (void)take_end(name, kShardExtension);
  shard.prefix = name;
  return shard;
}

std::string stem_of(std::string_view name) {
  if (const std::optional<ShardName> shard = parse_shard_name(name)) return shard->stem();
  return take_end(name, kShardExtension) ? std::string(name) : std::string();
}

std::string without_generation(std::string_view name) {
  const std::optional<ShardName> shard = parse_shard_name(name);
  if (!shard || shard->generation.empty()) return std::string(name);
  return std::string(shard->before)
      .append(name.substr(shard->before.size() + kGeneration.size() + shard->generation.size()));
}

std::size_t generation_of(std::string_view name) noexcept {
  constexpr std::uint64_t kMaxGeneration = 1'000'000'000;
  const std::optional<ShardName> shard = parse_shard_name(name);
  if (!shard || shard->generation.empty()) return 1;
  const std::optional<std::uint64_t> number = base::to_integer(shard->generation);
  return number && *number <= kMaxGeneration ? static_cast<std::size_t>(*number) : 0;
}

std::string in_generation(std::string_view name, std::size_t generation) {
  if (generation < 2) return std::string(name);
  const std::string_view before = parse_shard_name(name)->before;
  std::string made = std::string(before).append(kGeneration).append(padded(generation, kDigitsOfNumber));
  return made.append(name.substr(before.size()));
}

Status check_stem(std::string_view stem) {
  const std::string name = base::concat({stem, kShardExtension});
  const char* why = stem.empty() ? "it is empty" : check_shard_name(name);
  if (why == nullptr && stem.find_first_of("/\\") != stem.npos) why = "it holds a separator";
  if (why == nullptr && stem[0] == '.') why = "it begins with a dot, so folders would hide the files";
  if (why == nullptr && parse_shard_name(name)) why = "it looks like one of several files";
  if (std::string_view rest = stem; why == nullptr && !take_number(rest, kGeneration).empty())
    why = "it looks like a generation of another model";
  if (why == nullptr) return base::check_utf8("stem", stem, stem);
  return base::make_error(Errc::invalid_argument, {"no file may be called `", printable(name), "`: ", why});
}

ModelNames ModelNames::of_stem(std::string_view stem) {
  const std::string whole = base::concat({stem, kShardExtension});
  return {base::concat({whole, kIndexEnd}), whole, std::string(stem), std::string(kShardExtension)};
}

ModelNames ModelNames::of_index(std::string_view index, std::span<const std::string> shards) {
  const std::optional<ModelName> parts = parse_index_name(index);
  ModelNames names = of_stem(parts ? parts->stem() : "model");
  if (parts) names.index = index;
  const std::optional<ShardSet> set = shard_set(shards);
  if (!set || set->names[0].find('/') != std::string::npos) return names;
  const std::string& name = set->names[0];
  const ShardName shard = *parse_shard_name(name);
  names.before = shard.before;
  names.after = name.substr(static_cast<std::size_t>(shard.count.data() - name.data()) + shard.count.size());
  names.number_digits = shard.number.size();
  names.count_digits = shard.count.size();
  names.first = set->first;
  names.counts_from_zero = base::to_integer(shard.count) < set->count;
  return names;
}

std::string index_for(std::string_view file) {
  const std::optional<ShardName> shard = parse_shard_name(file);
  const std::string stem = stem_of(file);
  ModelName name{stem, {}};
  if (shard && !shard->variant.empty()) name = *shard;
  for (const std::string_view known : kKnownStems) {  // a variant at the end of an unknown prefix may be a version
    if (name.variant.empty() && is_variant(name.prefix, known))
      name = {name.prefix.substr(0, known.size()), name.prefix.substr(known.size() + 1)};
  }
  if (name.variant.empty()) return ModelNames::of_stem(name.prefix).index;
  return std::string(name.prefix).append(".safetensors.index.").append(name.variant).append(".json");
}

std::string ModelNames::numbered(std::size_t position, std::size_t files) const {
  const std::string number = padded(position + first, number_digits);
  return base::concat({before, "-", number, kOf, padded(files - (counts_from_zero ? 1 : 0), count_digits), after});
}

std::string ShardSet::with_number(std::string_view number) const {
  const std::string_view old = parse_shard_name(names[0])->number;
  return std::string(names[0]).replace(static_cast<std::size_t>(old.data() - names[0].data()), old.size(), number);
}

std::string ShardSet::name(std::size_t number) const {
  return with_number(padded(number, parse_shard_name(names[0])->number.size()));
}

std::vector<std::string> ShardSet::missing() const {
  std::vector<std::string> lacking;
  for (std::size_t number = first; number < first + count; ++number)
    if (std::string one = name(number); !std::ranges::binary_search(names, one)) lacking.push_back(std::move(one));
  return lacking;
}

std::string ShardSet::missing_text() const {
  constexpr std::size_t kNamed = 4;
  const std::vector<std::string> lacking = missing();
  std::string text = base::concat({names.size(), " of the ", count, " files `", printable(pattern()), "`"});
  for (std::size_t i = 0; i < std::min(lacking.size(), kNamed); ++i)
    text += (i == 0 ? ": `" : ", `") + printable(lacking[i]) + "`";
  if (lacking.size() > kNamed) text += " and " + std::to_string(lacking.size() - kNamed) + " more";
  return text + (lacking.size() == 1 ? " is missing" : " are missing");
}

// The names of a set differ only in digits of one number, and have the same length. So their order is that of the
// numbers.
std::vector<ShardSet> shard_sets(std::span<const std::string> names) {
  std::vector<ShardSet> sets;
  std::map<std::string, std::size_t> found;  // a name with asterisks as its number: the position in sets
  for (const std::string& name : names) {
    const std::optional<ShardName> shard = counted_shard(name);
    if (!shard) continue;
    std::string key = name;
    std::fill_n(key.begin() + (shard->number.data() - name.data()), shard->number.size(), '*');
    const auto [position, added] = found.try_emplace(std::move(key), sets.size());
    if (added) {
      sets.emplace_back();
      sets.back().stem = shard->stem();
      sets.back().count = static_cast<std::size_t>(*base::to_integer(shard->count));
    }
    sets[position->second].names.push_back(name);
  }
  for (ShardSet& set : sets) {
    std::sort(set.names.begin(), set.names.end());
    set.names.erase(std::unique(set.names.begin(), set.names.end()), set.names.end());
    if (set.names.front() == set.name(0)) set.first = 0;
    if (set.first == 0 && set.names.back() == set.name(set.count)) ++set.count;
  }
  return sets;
}

namespace {

// A complete set comes before others of its stem. Two complete ones of one generation are two models.
void add_shards(std::span<const std::string> names, std::vector<ModelFiles>& models) {
  std::vector<ShardSet> sets = shard_sets(names);
  for (const bool complete : {true, false}) {
    for (ShardSet& set : sets) {
      if (set.names.empty() || set.complete() != complete) continue;  // empty: moved to models
      const auto same = std::ranges::find(models, set.stem, &ModelFiles::stem);
      const bool second = same != models.end() && !same->shards.names.empty() && complete &&
                          generation_of(same->shards.names[0]) == generation_of(set.names[0]);
      if (same != models.end() && !second) continue;
      models.push_back({.stem = set.stem});
      models.back().shards = std::move(set);
    }
  }
}

}  // namespace

std::vector<ModelFiles> models_of(std::span<const std::string> names) {
  std::vector<ModelFiles> models;
  for (const std::string& name : names) {
    if (const auto index = parse_index_name(name)) models.push_back({.stem = index->stem(), .index = name});
  }
  const std::size_t indexes = models.size();
  for (const std::string& name : names) {
    std::string_view stem = name;
    if (!take_end(stem, kShardExtension) || counted_shard(name)) continue;
    const auto same = std::ranges::find(models, stem, &ModelFiles::stem);
    if (same != models.end()) {
      same->whole = name;
    } else if (indexes == 0 || std::ranges::find(kKnownStems, stem) != std::end(kKnownStems) ||
               std::ranges::any_of(models, [&](const ModelFiles& other) {
                 return !other.index.empty() && is_variant(other.stem, stem);
               })) {
      models.push_back({.stem = std::string(stem), .whole = name});
    }
  }
  if (indexes == 0) add_shards(names, models);
  std::vector<std::string> stems;
  std::ranges::transform(models, std::back_inserter(stems), &ModelFiles::stem);
  const auto wins = std::ranges::find_first_of(kKnownStems, stems);
  std::erase_if(models, [&](const ModelFiles& one) {
    if (wins != std::end(kKnownStems)) return one.stem != *wins;
    return std::ranges::any_of(stems, [&](const std::string& plain) { return is_variant(one.stem, plain); });
  });
  return models;
}

std::optional<ShardSet> shard_set(std::span<const std::string> names) {
  std::vector<ShardSet> sets = shard_sets(names);
  if (sets.size() != 1 || sets[0].names.size() != names.size()) return std::nullopt;
  return std::move(sets[0]);
}

}  // namespace safetensors::format
