// The subcommand stats: shows statistics of the values of tensors.
#include "values/stats.h"
#include "arguments.h"
#include "command.h"
#include "folders.h"
#include "input.h"
#include "json_output.h"
#include "rows.h"
#include "selection.h"
#include "text/text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <span>

namespace safetensors::cli {
namespace {

constexpr auto kStatsTable = joined(
    kChoiceOptions,
    {
        {"-s,--sort", "KEY",
         "name    natural order, layer.2 before layer.10 (default)\n"
         "offset  order of the files and of their bytes\n"
         "absmax  largest |x| first\n"
         "std     largest deviation first\n"
         "zeros   most zeros first\n"
         "nan     most NaN and infinities first",
         "name|offset|absmax|std|zeros|nan"},
        {"--top", "N", "show only the first N lines of each table"},
        {"--histogram", nullptr, "also count the numbers per power of two. The line 2^-3 is for 0.125 <= |x| < 0.25"},
        kRecursiveOption,
        kJsonOption,
    });

constexpr Apart kStatsApart[] = {{"top", "json"}};

void sort_stats(std::vector<TensorStats>& found, std::string_view sort) {
  if (sort == "offset") return;
  std::ranges::stable_sort(
      found, [](const TensorStats& a, const TensorStats& b) { return natural_less(a.tensor.name(), b.tensor.name()); });
  const auto by = [&](auto key) { std::ranges::stable_sort(found, std::greater<>(), key); };  // the largest first
  if (sort == "absmax") by(&TensorStats::abs_max);
  if (sort == "std") by(&TensorStats::deviation);
  if (sort == "zeros") by(&TensorStats::zeros);
  if (sort == "nan") by([](const TensorStats& one) { return one.count() - one.finite; });
}

void print_stats_histogram(Console& console, const TensorStats& found) {
  constexpr std::uint64_t kBar = 30;
  if (found.histogram.empty()) return;
  std::uint64_t most = 0;
  for (const auto& [exponent, bin] : found.histogram) most = std::max(most, bin.negative + bin.positive);
  Rows rows(console, nullptr, "",
            {{nullptr, "|X| FROM", kRight},
             {nullptr, "NEGATIVE", kRight, kHide},
             {nullptr, "POSITIVE", kRight, kHide},
             {nullptr, "SHARE", kRight},
             {nullptr, ""}},
            "  ");
  for (auto line = found.histogram.rbegin(); line != found.histogram.rend(); ++line) {
    const auto& [exponent, bin] = *line;
    const std::uint64_t count = bin.negative + bin.positive;
    const double part = static_cast<double>(count) / static_cast<double>(most);
    const auto bar = static_cast<std::size_t>(std::ceil(part * static_cast<double>(kBar)));
    rows.row({Cell().shown(formatted("2^{}", exponent)), bin.negative, bin.positive,
              Cell().shown(share_text(count, found.count())), Cell().shown(std::string(bar, '#'))});
  }
  console.out(formatted("\n{}\n", printable(found.tensor.name())));
  rows.finish();
}

std::string histogram_json(const TensorStats& found) {
  const auto bin_text = [](const auto& bin) {
    return formatted("{{\"exponent\": {}, \"negative\": {}, \"positive\": {}}}", bin.first, bin.second.negative,
                     bin.second.positive);
  };
  return "[" + joined_texts(found.histogram, bin_text) + "]";
}

void show_stats(Console& console, Json* json, const std::vector<TensorStats>& list, const Arguments& given) {
  // The column of the order is never hidden, and neither are those that show trouble.
  const auto hide = [&](std::string_view key) { return given.value("sort") == key ? kKeep : kHide; };
  if (json != nullptr) json->field("tensor_count", list.size());
  Rows rows(console, json, "tensors",
            {{"name", "NAME", kLeft, Narrow::name},
             {"dtype", "DTYPE"},
             {"shape", nullptr},
             {"count", nullptr},
             {"min", "MIN", kRight},
             {"max", "MAX", kRight},
             {"mean", "MEAN", kRight, hide("mean")},
             {"std", "STD", kRight, hide("std")},
             {"absmax", "ABSMAX", kRight, hide("absmax")},
             {"zeros", "ZEROS", kRight, hide("zeros")},
             {"nan", "NAN", kRight},
             {nullptr, "INF", kRight},
             {"positive_infinity", nullptr},
             {"negative_infinity", nullptr},
             {"histogram", nullptr}});
  std::uint64_t numbers = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  const std::span<const TensorStats> shown = top_of(list, given);
  for (const TensorStats& found : list) {
    const auto known = [&](double value) { return found.finite == 0 ? Cell(std::nullopt) : Cell(value); };
    numbers += found.count();
    nan += found.nan;
    infinite += found.infinities();
    if (&found >= shown.data() + shown.size()) continue;
    // The 13 digits of the deviation that are right. The other numbers are right to their last digit.
    const double deviation = std::strtod(formatted("{:.13g}", found.deviation()).c_str(), nullptr);
    rows.row({found.tensor.name(), to_string(found.tensor.dtype()), found.tensor.shape(), found.count(),
              known(found.min), known(found.max), known(found.mean()), known(deviation), known(found.abs_max()),
              found.zeros, found.nan, found.infinities(), found.positive_infinity, found.negative_infinity,
              given.has("histogram") ? Cell::raw(histogram_json(found)) : Cell()});
  }
  rows.finish();
  if (json != nullptr) return;
  print_rest(console, list.size() - shown.size());
  console.out(formatted("{}, {}, {} NaN, {} infinite\n", counted(list.size(), "tensor"), counted(numbers, "number"),
                        grouped(nan), grouped(infinite)));
  for (const TensorStats& found : shown) print_stats_histogram(console, found);
}

Result<Exit> stats_of_path(const std::string& path, const Arguments& given, bool several, Console& console,
                           Json* json) {
  const Result<Input> input = Input::open(path, console, {}, PipeData::keep);
  if (!input) return input.error();
  const Selection names(given);
  const auto select = [&](const TensorInfo& tensor) { return names.selects(tensor); };
  Result<std::vector<TensorStats>> found = stats(input->set(), given.has("histogram"), console, select);
  if (!found) return found.error();
  sort_stats(*found, given.value("sort").value_or("name"));
  if (json == nullptr && several) console.heading(formatted("{}:", printable(shown_path(path))));
  show_stats(console, json, *found, given);
  if (!found->empty() || names.empty()) return Exit::good;
  console.message(formatted("{}: {}", printable(shown_path(path)), names.nothing(infos(*input))));
  return Exit::negative;
}

Exit run_stats(const Arguments& given, Console& console) {
  given.need_path();
  (void)Selection(given);  // errors of usage come first
  (void)given.number("top");
  const std::vector<std::string> paths = expand_folders(given.positionals, given.has("recursive"));
  return for_each_file("stats", paths, given.json(), console, [&](const std::string& path, Json* json) {
    return stats_of_path(path, given, paths.size() > 1, console, json);
  });
}

}  // namespace

const Command kStats = {
    .name = "stats",
    .summary = "show ranges, means, deviations, NaN and zeros of values",
    .title = "Show statistics of the values of tensors.",
    .usage = "PATH...",
    .description = R"(A PATH is a file, a folder or an index of a model of several files, a pattern in quotes, or -
for standard input. Reads each tensor once, with all processors and in bounded memory, and prints the range, mean and
deviation of its finite numbers, and counts zeros, NaN and infinities. An element of C64 is two numbers, and BOOL is 0
or 1.)",
    .options = kStatsTable,
    .apart = kStatsApart,
    .details = R"(STD is the population standard deviation. ABSMAX is the largest |x|. ZEROS counts 0.0 and -0.0,
INF both infinities. If no number is finite, MIN, MAX, MEAN, STD and ABSMAX are shown as -.)",
    .examples = R"(safetensors stats model.safetensors
safetensors stats llama-7b/ --match '*.k_proj.*' --sort absmax
safetensors stats llama-7b/ --layers 0-3 --dtype f16 --sort nan
safetensors stats model.safetensors --match lm_head.weight --histogram
safetensors stats --json model.safetensors | jq '.files[].tensors[].std')",
    .exits = "0 shown; 1 a file is invalid, or nothing in it matches; 2 usage; 3 a file cannot be read",
    .run = run_stats,
};

}  // namespace safetensors::cli
