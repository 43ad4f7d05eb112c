// The subcommand clean: removes the temporary files of killed writers. The library decides which of them are stale.
#include "arguments.h"
#include "command.h"
#include "each_file.h"
#include "json_output.h"
#include "text/formatted.h"
#include "text/size.h"
#include "text/table.h"

#include <safetensors/clean.h>

#include <array>
#include <chrono>

namespace safetensors::cli {
namespace {

constexpr const char kCleanDescription[] =
    R"(A writer that is killed while it replaces a file leaves a hidden temporary as
large as that file: .safetensors-<16 hex digits>.tmp. This command finds those
files in DIR and removes them. It touches nothing else: a temporary is a regular
file with exactly such a name, and symlinks in DIR are not followed. A writer of
a model of several files leaves a folder, .safetensors-<16 hex digits>.folder,
which goes with the files in it.

A running writer holds a lock on its temporary, and a locked temporary is kept.
On network file systems, and wherever locks are unsupported, age decides: a
temporary that has not changed for 24 hours is removed. Run this command on the
machine that writes.)";

constexpr Option kCleanTable[] = {
    {"-n,--dry-run", nullptr, "show what would be removed, remove nothing"},
    {"-R,--recursive", nullptr, "search the directories below DIR, too", nullptr, Values::any, nullptr, "-r"},
    {"--min-age", "HOURS", "the minimum age without locks (default 24)"},
    kJsonOption,
};

constexpr const char* kCleanExamples[] = {
    "safetensors clean models --dry-run",
    "safetensors clean ~/.cache/huggingface --recursive",
};

struct CleanArguments {
  std::vector<std::string> directories;
  CleanOptions clean;
  bool json = false;
};

// The states in the JSON document, indexed by TemporaryState.
constexpr std::array<std::string_view, 5> kStates = {"removed", "stale", "in_use", "recent", "failed"};

std::string_view word(TemporaryState state) {
  return kStates.at(static_cast<std::size_t>(state));
}

const char* text_of(TemporaryState state) {
  switch (state) {
    case TemporaryState::removed:
      return "removed";
    case TemporaryState::stale:
      return "would be removed";
    case TemporaryState::in_use:
      return "in use";
    case TemporaryState::recent:
      return "too recent";
    case TemporaryState::failed:
      break;
  }
  return "failed";
}

struct Sum {
  std::uint64_t files = 0;
  std::uint64_t folders = 0;
  std::uint64_t bytes = 0;
};

// The temporaries that were removed, or would be without --dry-run. The end of its name tells a folder from a file.
Sum sum_of(const std::vector<Temporary>& found) {
  Sum sum;
  for (const Temporary& temporary : found) {
    if (temporary.state != TemporaryState::removed && temporary.state != TemporaryState::stale) continue;
    ++(temporary.path.ends_with(".folder") ? sum.folders : sum.files);
    sum.bytes += temporary.size;
  }
  return sum;
}

// "2 files", "1 folder" or "1 file and 2 folders".
std::string counts_text(const Sum& sum) {
  if (sum.folders == 0) return counted(sum.files, "file");
  if (sum.files == 0) return counted(sum.folders, "folder");
  return counted(sum.files, "file") + " and " + counted(sum.folders, "folder");
}

void print_text(Console& console, const std::vector<Temporary>& found, bool dry_run) {
  Table table({{"STATE"}, {"SIZE", Table::Align::right}, {"TEMPORARY"}});
  for (const Temporary& temporary : found) {
    table.row({text_of(temporary.state), size_text(temporary.size), printable(temporary.path)});
  }
  if (!found.empty()) table.print(console);
  const Sum sum = sum_of(found);
  console.out(formatted("{}{}, {}\n", dry_run ? "would remove " : "removed ", counts_text(sum), size_text(sum.bytes)));
}

void print_json(Json& json, const std::vector<Temporary>& found, const CleanArguments& options) {
  const Sum sum = sum_of(found);
  json.field("dry_run", options.clean.dry_run).field("recursive", options.clean.recursive);
  json.field("count", sum.files + sum.folders).field("bytes", sum.bytes).key("temporaries").open('[');
  for (const Temporary& temporary : found) {
    json.line().open('{').field("path", temporary.path).field("bytes", temporary.size);
    json.field("state", word(temporary.state));
    if (temporary.error) json.error(*temporary.error);
    json.close('}');
  }
  json.close(']');
}

Exit clean(const std::string& directory, const CleanArguments& options, Console& console, Json* json) {
  const Result<std::vector<Temporary>> found = clean_directory(directory, options.clean);
  if (!found) {
    if (json != nullptr) json->error(found.error());
    return console.error(directory, found.error());
  }
  if (json != nullptr) {
    print_json(*json, *found, options);
  } else {
    if (options.directories.size() > 1) console.heading(formatted("{}:", printable(directory)));
    print_text(console, *found, options.clean.dry_run);
  }
  Exit code = Exit::good;
  for (const Temporary& temporary : *found) {
    if (temporary.error) code = worse(code, console.error(temporary.path, *temporary.error));
  }
  return code;
}

Exit run_clean(std::span<const std::string> given, Console& console) {
  CleanArguments options;
  std::optional<std::string> min_age;
  Arguments arguments(kClean);
  arguments.positionals(options.directories);
  arguments.flag("dry-run", options.clean.dry_run);
  arguments.flag("recursive", options.clean.recursive);
  arguments.value("min-age", min_age);
  arguments.flag("json", options.json);
  if (const auto wrong = arguments.parse(given, console)) return console.usage("clean", *wrong);
  if (options.directories.empty()) return console.usage("clean", "which DIR?");
  if (min_age) {
    constexpr std::uint64_t kMaxHours = 1'000'000;
    const auto hours = parse_number(*min_age);
    if (!hours || *hours > kMaxHours) return console.usage("clean", "--min-age is a number of hours, such as 48");
    options.clean.min_age = std::chrono::hours(*hours);
  }
  return for_each_file(
      "clean", options.directories, options.json, console,
      [&](const std::string& path, Json* json) { return clean(path, options, console, json); }, "directories");
}

}  // namespace

const Command kClean = {
    .name = "clean",
    .summary = "remove the temporary files of killed writers",
    .title = "Remove the temporary files of killed writers.",
    .usage =
        "safetensors clean DIR... [--dry-run] [--recursive] [--min-age HOURS]\n"
        "                  [--json]",
    .description = kCleanDescription,
    .options = kCleanTable,
    .arguments = Values::folder,
    .examples = kCleanExamples,
    .exits =
        "0 done, even if there was nothing to remove; 2 usage;\n"
        "3 a directory cannot be read or a file cannot be removed",
    .run = run_clean,
};

}  // namespace safetensors::cli
