// A damaged model has thousands of problems of one kind, so people see the first ones. JSON has all.
#include "index_problems.h"

#include "text/text.h"

#include <array>
#include <iterator>

namespace safetensors::cli {
namespace {

constexpr std::size_t kMaxOfAKind = 20;
constexpr std::string_view kProblemWords[] = {"missing_file", "invalid_file",     "missing_tensor",
                                              "wrong_file",   "unindexed_tensor", "unindexed_file",
                                              "stray_file",   "total_size",       "duplicate_tensor"};

}  // namespace

void print_problems(Console& console, const std::string& path, std::string_view error, std::string_view note,
                    const std::vector<IndexProblem>& problems) {
  std::array<std::size_t, std::size(kProblemWords)> counts{};
  for (const IndexProblem& problem : problems) ++counts[static_cast<std::size_t>(problem.kind)];
  std::array<std::size_t, std::size(kProblemWords)> shown{};
  for (const IndexProblem& problem : problems) {
    const auto kind = static_cast<std::size_t>(problem.kind);
    const std::string head = formatted("{}: {}: ", printable(path), problem.is_error ? error : note);
    if (++shown[kind] <= kMaxOfAKind) console.out(head + problem.message + "\n");
    if (shown[kind] == kMaxOfAKind + 1)
      console.out(formatted("{}{} more like this\n", head, grouped(counts[kind] - kMaxOfAKind)));
  }
}

void json_problems(Json& json, std::string_view key, const std::vector<IndexProblem>& problems) {
  json.line().objects(key, problems, [&](const IndexProblem& problem) {
    json.field("kind", kProblemWords[static_cast<std::size_t>(problem.kind)]).field("is_error", problem.is_error);
    if (!problem.tensor.empty()) json.field("tensor", problem.tensor);
    if (!problem.file.empty()) json.field("file", problem.file);
    json.field("message", problem.message);
  });
}

}  // namespace safetensors::cli
