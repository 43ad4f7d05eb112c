// The subcommand meta: parses the command line and runs ls or get. meta_edit.cpp implements set and rm.
#include "arguments.h"
#include "command.h"
#include "input.h"
#include "json_output.h"
#include "meta_edit.h"
#include "new_file.h"
#include "text/escape.h"
#include "text/formatted.h"

#include "text/size.h"

namespace safetensors::cli {
namespace {

constexpr const char kMetaDescription[] =
    R"(PATH is a file, a folder or an index of a model of several files, a pattern in
quotes, or - for standard input. ls prints every pair, escaped, and
the metadata of the index. get prints one value unchanged (escaped on a
terminal) and a line feed, from the first file that has KEY. set and rm write a
new file with the same tensors, which replaces the old one. rm changes nothing
if a KEY does not exist. You may write KEY as ls shows it.

set changes every file of a model, and rm each that has a KEY, one after the
other. Nothing is changed if one of the new headers is invalid or too large. A
kill can leave some files changed and the others not, each of them complete: run
the same command again.)";

constexpr Option kMetaTable[] = {
    {"-n,--dry-run", nullptr, "show what would be done, change nothing"},
    {"--in-place", nullptr,
     "overwrite only the header, if the new one fits.\n"
     "Fast for large files, but a kill or a power cut\n"
     "during the write can leave a damaged header, and\n"
     "a program that opens the file meanwhile can see\n"
     "one"},
    {"--slack", "N",
     "reserve N bytes for later edits in place; N may\n"
     "end in KiB or MiB"},
    {"--durability", "D",
     "after a power cut there is\n"
     "full  the new file (default)\n"
     "file  the old file or the new one\n"
     "none  no guarantee",
     "full|file|none"},
    kJsonOption,
};

constexpr const char* kMetaExamples[] = {
    "safetensors meta ls model.safetensors",
    "safetensors meta get model.safetensors format",
    "safetensors meta set model.safetensors license=apache-2.0 --dry-run",
    "safetensors meta rm model.safetensors draft --in-place",
    "safetensors meta set llama/ license=apache-2.0",
};

void print_json(Json& json, const Metadata& metadata) {
  json.key("metadata");
  if (!metadata.present()) {
    json.null();
    return;
  }
  json.open('{');
  for (const auto& [key, value] : metadata) json.line().field(key, value);
  json.close('}');
}

void print_json(Json& json, const Input& input) {
  if (input.is_file()) return print_json(json, input.files()[0].metadata());
  const std::string_view index = input.checkpoint()->index_metadata();
  json.key("index_metadata");
  if (index.empty()) {
    json.null();
  } else {
    json.raw(visible(index));
  }
  json.line().key("files").open('[');
  for (const File& file : input.files()) {
    json.line().open('{').field("path", file.path());
    print_json(json, file.metadata());
    json.close('}');
  }
  json.close(']');
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

Exit list(const std::vector<std::string>& given, bool as_json, Console& console) {
  if (given.size() != 2) return console.usage("meta", "ls takes one PATH");
  const Result<Input> input = Input::open(given[1], console);
  if (as_json) {
    Json json(console, "meta");
    json.field("path", given[1]);
    if (input) {
      print_json(json, *input);
    } else {
      json_input_error(json, given[1], input.error());
    }
    json.finish();
  } else if (input) {
    print_text(console, *input);
  }
  return input ? Exit::good : input_error(given[1], input.error(), console);
}

// The pair in the first file that has it.
std::optional<Metadata::value_type> find_pair(const Input& input, std::string_view key) {
  for (const File& file : input.files()) {
    if (const auto pair = find_metadata(file.header(), key)) return pair;
  }
  return std::nullopt;
}

Exit get(const std::vector<std::string>& given, bool as_json, Console& console) {
  if (given.size() != 3) return console.usage("meta", "get takes one PATH and one KEY");
  const Result<Input> input = Input::open(given[1], console);
  const auto pair = input ? find_pair(*input, given[2]) : std::nullopt;
  const Error missing = {
      .code = Errc::not_found, .path = {}, .message = formatted("no metadata key `{}`", printable(given[2]))};
  const Error* error = !input ? &input.error() : !pair ? &missing : nullptr;
  if (as_json) {
    Json json(console, "meta");
    json.field("path", given[1]);
    if (error != nullptr) {
      json_input_error(json, given[1], *error);
    } else {
      json.field("key", pair->first).field("value", pair->second);
    }
    json.finish();
  } else if (error == nullptr) {
    console.out(console.out_is_terminal() ? visible(pair->second) : std::string(pair->second));
    console.out("\n");
  }
  return error == nullptr ? Exit::good : input_error(given[1], *error, console);
}

Exit run_meta(std::span<const std::string> arguments_given, Console& console) {
  std::vector<std::string> given;
  std::optional<std::string> slack;
  std::optional<std::string> durability;
  MetaEdit edit;
  Arguments arguments(kMeta);
  arguments.positionals(given);
  arguments.flag("json", edit.json);
  arguments.flag("dry-run", edit.dry_run);
  arguments.flag("in-place", edit.options.in_place);
  arguments.value("slack", slack);
  arguments.value("durability", durability);
  if (const auto wrong = arguments.parse(arguments_given)) return console.usage("meta", *wrong);
  const std::string action = given.empty() ? "" : given[0];
  const bool edits = action == "set" || action == "rm";
  if (!edits && (edit.dry_run || edit.options.in_place || slack || durability)) {
    return console.usage("meta", "--dry-run, --in-place, --slack and --durability go with set and rm");
  }
  if (action == "ls") return list(given, edit.json, console);
  if (action == "get") return get(given, edit.json, console);
  if (action.empty()) return console.usage("meta", "what to do: ls, get, set or rm?");
  if (!edits) return console.usage("meta", not_a_choice("the action", kMeta.words, action));
  const auto slack_bytes = parse_size(slack.value_or("0"));
  if (!slack_bytes) return console.usage("meta", "--slack is a number of bytes, such as 4096 or 4KiB");
  if (slack && edit.options.in_place) return console.usage("meta", "--slack goes with a new file, not with --in-place");
  edit.options.metadata_slack = *slack_bytes;
  const std::string wanted = durability.value_or("full");
  edit.options.write.durability = wanted == "full"   ? Durability::full
                                  : wanted == "file" ? Durability::file
                                                     : Durability::none;
  edit.options.write.in_place_if_no_rename = in_place_if_no_rename();
  return run_meta_edit(edit, given, console);
}

}  // namespace

const Command kMeta = {
    .name = "meta",
    .summary = "show and change metadata: meta ls, get, set, rm",
    .title = "Show and change the metadata of a file.",
    .usage =
        "safetensors meta ls PATH [--json]\n"
        "safetensors meta get PATH KEY [--json]\n"
        "safetensors meta set PATH KEY=VALUE... [OPTIONS]\n"
        "safetensors meta rm PATH KEY... [OPTIONS]",
    .description = kMetaDescription,
    .options_heading = "options of set and rm:",
    .options = kMetaTable,
    .words = "ls|get|set|rm",
    .after_model = Values::key,
    .examples = kMetaExamples,
    .exits =
        "0 done; 1 the file is invalid, KEY does not exist, or the header does\n"
        "not fit in place; 2 usage; 3 the file cannot be read or written",
    .run = run_meta,
};

}  // namespace safetensors::cli
