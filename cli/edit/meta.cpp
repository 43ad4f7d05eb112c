// The subcommand meta: ls, get, set and rm. set and rm first plan the edit of all files of the model. This gives the
// sizes that --dry-run shows, and finds errors before a file changes. Then the library edits one file after the other.
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "new_file.h"
#include "text/text.h"

#include <safetensors/header.h>
#include <safetensors/writer.h>

#include "base/error.h"
#include "base/utf8.h"
#include "format/header/header_writer.h"

namespace safetensors::cli {
namespace {

using Edit = std::pair<std::string, std::optional<std::string>>;  // of one key
using Edits = std::vector<Edit>;

struct Plan {
  std::uint64_t header_bytes = 0;  // after the edit
  std::uint64_t file_bytes = 0;
};

// A file to edit.
struct Target {
  std::string path;
  std::string name;              // for display, not escaped
  std::optional<Header> header;  // released before the library edits the file, because it reads the header again
  Edits edits;
  std::vector<std::optional<std::string>> old = {};  // values, in the order of the edits
  Plan plan = {};
};

Edits parse_edits(const std::vector<std::string>& given) {
  const bool set = given[0] == "set";
  if (given.size() < 3) throw UsageError(set ? "set takes one PATH and KEY=VALUE..." : "rm takes one PATH and KEY...");
  Edits edits;
  for (std::size_t i = 2; i < given.size(); ++i) {
    const std::size_t equals = given[i].find('=');
    if (set && equals == std::string::npos) throw UsageError(formatted("{} is not KEY=VALUE", printable(given[i])));
    if (base::first_invalid_utf8(given[i]) != std::string_view::npos)
      throw UsageError(formatted("{} is not UTF-8", printable(given[i])));
    Edit edit{given[i], std::nullopt};
    if (set) edit = {given[i].substr(0, equals), given[i].substr(equals + 1)};
    if (std::ranges::find(edits, edit.first, &Edit::first) != edits.end())
      throw UsageError(formatted("{} is given twice", printable(edit.first)));
    edits.push_back(std::move(edit));
  }
  return edits;
}

// The sizes that edit_metadata() would produce, or its error.
Result<Plan> plan_edit(const Header& header, const Edits& edits, const EditOptions& options) {
  format::MetadataEdits by_key;  // one key may be given exact and escaped: the last edit wins
  for (const auto& [key, value] : edits) by_key[key] = &value;
  const Result<std::string> text = format::edited_text(header, by_key);
  if (!text) return text.error();
  const std::uint64_t size = text->size();
  if (options.in_place) {
    if (size <= header.header_bytes()) return Plan{header.header_bytes(), header.file_bytes()};
    return fault(
        Errc::header_does_not_fit,
        formatted(
            "the new header does not fit: {} bytes, the old one has {} (without --in-place, a new file is written)",
            size, header.header_bytes()));
  }
  const std::uint64_t max = options.parse.max_header_bytes;
  const std::uint64_t padded = options.metadata_slack > max ? max + 1 : (size + options.metadata_slack + 7) / 8 * 8;
  if (padded <= max) return Plan{padded, 8 + padded + header.data_bytes()};
  return fault(Errc::header_too_large, formatted("header too large: it would be over {} bytes", max));
}

void print_plan(Console& console, const Header& header, const Edits& edits, const Plan& plan, bool in_place) {
  for (const auto& [key, value] : edits) {
    const auto old = header.metadata().find(key);
    const std::string before = old ? formatted(", which is {}", shortened(*old, 60)) : std::string();
    console.out(value ? formatted("would set {} to {}{}\n", printable(key), shortened(*value, 60), before)
                      : formatted("would remove {}{}\n", printable(key), before));
  }
  console.out(in_place ? formatted("would overwrite the header in place, {}\n", counted(plan.header_bytes, "byte"))
                       : formatted("would write a new file: header {} (now {}), file {} (now {})\n",
                                   counted(plan.header_bytes, "byte"), grouped(header.header_bytes()),
                                   counted(plan.file_bytes, "byte"), grouped(header.file_bytes())));
}

void json_plan(Json& json, const Target& target) {
  json.field("header_bytes", target.plan.header_bytes).field("file_bytes", target.plan.file_bytes);
  std::size_t i = 0;
  json.objects("edits", target.edits, [&](const Edit& edit) {
    json.field("key", edit.first).field("old", target.old[i++]).field("new", edit.second);
  });
}

// Finds the pair with this key, or else the pair whose escaped key, as the commands show it, is `key`.
std::optional<Metadata::value_type> find_metadata(const Header& header, std::string_view key) {
  if (const auto value = header.metadata().find(key)) return Metadata::value_type{key, *value};
  if (key.find('\\') == std::string_view::npos) return std::nullopt;
  for (const auto& pair : header.metadata()) {
    if (printable(pair.first) == key) return pair;
  }
  return std::nullopt;
}

// Returns the edits of one file. For rm, these are the edits whose key the file has. The user may have given a key
// escaped: the edit has the key as it is in the file. Sets `found` for each edit in the result.
Edits edits_of(const Header& header, const Edits& edits, std::vector<bool>& found) {
  Edits list;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    if (edits[i].second) {
      list.push_back(edits[i]);
      found[i] = true;
    } else if (const auto pair = find_metadata(header, edits[i].first)) {
      list.push_back({std::string(pair->first), std::nullopt});
      found[i] = true;
    }
  }
  return list;
}

// Plans the edits of all files. Errors: not_found, and those of plan_edit() with the path of the file.
Result<std::vector<Target>> plan_files(const Input& input, const Edits& edits, const EditOptions& options) {
  if (input.files().empty()) return fault(Errc::not_found, "the model has no files; nothing was changed");
  std::vector<Target> targets;
  std::vector<bool> found(edits.size());
  for (std::size_t i = 0; i < input.files().size(); ++i) {
    const File& file = input.files()[i];
    Target target{file.path(), input.file_name(i), file.header(), edits_of(file.header(), edits, found)};
    for (const Edit& change : target.edits) {
      const auto value = target.header->metadata().find(change.first);
      target.old.push_back(value ? std::optional(std::string(*value)) : std::nullopt);
    }
    if (!target.edits.empty()) targets.push_back(std::move(target));
  }
  for (std::size_t i = 0; i < edits.size(); ++i) {
    if (found[i]) continue;
    return fault(Errc::not_found, formatted("no metadata key `{}`; nothing was changed", printable(edits[i].first)));
  }
  for (Target& target : targets) {
    const Result<Plan> plan = plan_edit(*target.header, target.edits, options);
    if (!plan) return base::with_path(plan.error(), target.path);
    target.plan = *plan;
  }
  return targets;
}

// Edits one file after the other. A signal stops the copy: the library removes the unfinished file, and the process
// ends by the signal. An error says how many files are already changed.
Status write_files(const std::vector<Target>& targets, const EditOptions& options) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const Interrupt interrupt;
    const Status status = edit_metadata(targets[i].path, targets[i].edits, options);
    if (status) continue;
    Error error = base::with_path(status.error(), targets[i].path);
    if (i > 0) {
      error.message +=
          formatted("; {} of {} files are already changed: run the command again for the rest", i, targets.size());
    }
    return error;
  }
  return {};
}

// set and rm.
Exit edit(const Arguments& given, const EditOptions& options, Console& console) {
  const std::string& argument = given.positionals[1];
  const Edits edits = parse_edits(given.positionals);
  if (argument == kStandardInput) throw UsageError("set and rm need a file, not standard input");
  const bool dry_run = given.has("dry-run");
  std::optional<Result<Input>> input(Input::open(argument, console));
  const std::size_t files = *input ? (*input)->files().size() : 0;
  // For one file of a folder, the path of the file.
  const std::string path = files == 1 ? (*input)->files()[0].path() : argument;
  Result<std::vector<Target>> targets =
      *input ? plan_files(**input, edits, options) : Result<std::vector<Target>>(input->error());
  Status status = targets ? Status() : Status(targets.error());
  input.reset();  // the library opens the files again
  if (status && !dry_run) {
    for (Target& target : *targets) target.header.reset();
    status = write_files(*targets, options);
  }
  if (given.json()) {
    Json json(console, "meta");
    json.field("path", path).field("dry_run", dry_run).field("in_place", options.in_place);
    json.field("changed", status.ok() && !dry_run);
    if (!status) {
      json_input_error(json, path, status.error());
    } else if (files == 1) {
      json_plan(json, targets->front());
    } else {
      json.objects("files", *targets, [&](const Target& target) {
        json.field("path", target.path);
        json_plan(json, target);
      });
    }
    json.finish();
  } else if (status && dry_run) {
    for (const Target& target : *targets) {
      if (files > 1) console.heading(printable(target.name) + ":");
      print_plan(console, *target.header, target.edits, target.plan, options.in_place);
    }
  }
  return status ? Exit::good : input_error(path, status.error(), console);
}

constexpr Option kMetaTable[] = {
    {"-n,--dry-run", nullptr, "show what would be done, change nothing"},
    {"--in-place", nullptr,
     "overwrite only the header, if the new one fits. Fast for large files, but a kill or a power cut during the write "
     "can leave a damaged header, and a program that opens the file meanwhile can see one"},
    {"--slack", "N", "reserve N bytes for later edits in place; N may end in KiB or MiB"},
    {"--durability", "D",
     "after a power cut there is\n"
     "full  the new file (default)\n"
     "file  the old file or the new one\n"
     "none  no guarantee",
     "full|file|none"},
    kJsonOption,
};

void print_json(Json& json, const Input& input) {
  if (input.is_file()) return json_metadata(json, input.files()[0].metadata(), true);
  const std::string_view index = input.checkpoint()->index_metadata();
  json.key("index_metadata").raw(index.empty() ? "null" : visible(index));
  json.line().objects("files", input.files(), [&](const File& file) {
    json.field("path", file.path());
    json_metadata(json, file.metadata(), true);
  });
}

void print_text(Console& console, const Input& input) {
  if (!input.is_file() && !input.checkpoint()->index_metadata().empty()) {
    console.heading("index:");
    console.out(visible(input.checkpoint()->index_metadata()) + "\n");
  }
  for (std::size_t i = 0; i < input.files().size(); ++i) {
    if (!input.is_file()) console.heading(printable(input.file_name(i)) + ":");
    for (const auto& [key, value] : input.files()[i].metadata()) {
      console.out(formatted("{} = {}\n", printable(key), printable(value)));
    }
  }
}

// ls and get.
Exit show(const Arguments& given, Console& console) {
  const std::vector<std::string>& words = given.positionals;
  const bool all = words[0] == "ls";
  if (words.size() != (all ? 2 : 3)) throw UsageError(all ? "ls takes one PATH" : "get takes one PATH and one KEY");
  const Result<Input> input = Input::open(words[1], console);
  std::optional<Metadata::value_type> pair;  // in the first file that has it
  for (std::size_t i = 0; input && !all && !pair && i < input->files().size(); ++i)
    pair = find_metadata(input->files()[i].header(), words[2]);
  std::optional<Error> error;
  if (!input) error = input.error();
  if (input && !all && !pair) error = fault(Errc::not_found, formatted("no metadata key `{}`", printable(words[2])));
  if (given.json()) {
    Json json(console, "meta");
    json.field("path", words[1]);
    if (error) json_input_error(json, words[1], *error);
    if (pair) json.field("key", pair->first).field("value", pair->second);
    if (input && all) print_json(json, *input);
    json.finish();
  } else if (pair) {
    console.out((console.out_is_terminal() ? visible(pair->second) : std::string(pair->second)) + "\n");
  } else if (input && all) {
    print_text(console, *input);
  }
  return error ? input_error(words[1], *error, console) : Exit::good;
}

Exit run_meta(const Arguments& given, Console& console) {
  EditOptions options;
  options.in_place = given.has("in-place");
  const auto slack = given.number("slack", "a number of bytes, such as 4096 or 4KiB", &parse_size);
  const std::string action = given.positionals.empty() ? "" : given.positionals[0];
  const bool edits = action == "set" || action == "rm";
  if (!edits && (given.has("dry-run") || options.in_place || slack || given.has("durability")))
    throw UsageError("--dry-run, --in-place, --slack and --durability go with set and rm");
  if (action == "ls" || action == "get") return show(given, console);
  if (action.empty()) throw UsageError("what to do: ls, get, set or rm?");
  if (!edits) throw UsageError(not_a_choice("the action", kMeta.words, action));
  if (slack && options.in_place) throw UsageError("--slack goes with a new file, not with --in-place");
  options.metadata_slack = slack.value_or(0);
  options.parse.allow_leading_whitespace = true;
  options.write = write_options(given, console);
  return edit(given, options, console);
}

}  // namespace

const Command kMeta = {
    .heading = "edit",
    .name = "meta",
    .summary = "show and change metadata: meta ls, get, set, rm",
    .title = "Show and change the metadata of a file.",
    .usage = "ls PATH [--json]\nget PATH KEY [--json]\nset PATH KEY=VALUE...\nrm PATH KEY...",
    .description = R"(PATH is a file, a folder or an index of a model of several files, a pattern in quotes, or - for
standard input. ls prints every pair, escaped, and the metadata of the index. get prints one value unchanged (escaped
on a terminal) and a line feed, from the first file that has KEY. set and rm write a new file with the same tensors,
which replaces the old one. rm changes nothing if a KEY does not exist. You may write KEY as ls shows it.

set changes every file of a model, and rm each that has a KEY, one after the other. Nothing is changed if one of the
new headers is invalid or too large. A kill can leave some files changed and the others not, each of them complete:
run the same command again.)",
    .options_heading = "options of set and rm:",
    .options = kMetaTable,
    .words = "ls|get|set|rm",
    .after_model = Values::any,
    .examples = R"(safetensors meta ls model.safetensors
safetensors meta get model.safetensors format
safetensors meta set model.safetensors license=apache-2.0 --dry-run
safetensors meta rm model.safetensors draft --in-place
safetensors meta set llama/ license=apache-2.0)",
    .exits =
        "0 done; 1 the file is invalid, KEY does not exist, or the header does not fit in place; 2 usage; 3 the file "
        "cannot be read or written",
    .run = run_meta,
};

}  // namespace safetensors::cli
