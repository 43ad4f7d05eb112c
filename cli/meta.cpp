// The subcommand meta: parses the command line and runs ls or get. meta_edit.cpp implements set and rm.
#include "arguments.h"
#include "command.h"
#include "escape.h"
#include "formatted.h"
#include "json_output.h"
#include "meta_edit.h"
#include "open_file.h"

namespace safetensors::cli {
namespace {

constexpr const char kMetaHelp[] = R"(Show and change the metadata of a file.

usage: safetensors meta ls FILE [--json]
       safetensors meta get FILE KEY [--json]
       safetensors meta set FILE KEY=VALUE... [OPTIONS]
       safetensors meta rm FILE KEY... [OPTIONS]

ls prints every pair, escaped. get prints one value unchanged (escaped on a
terminal) and a line feed. set and rm write a new file with the same tensors,
which replaces the old one. rm changes nothing if a KEY does not exist. You may
write KEY as ls shows it.

options of set and rm:
      --dry-run             show what would be done, change nothing
      --in-place            overwrite only the header, if the new one fits.
                            Fast for large files, but a kill or a power cut
                            during the write can leave a damaged header, and
                            a program that opens the file meanwhile can see
                            one
      --slack N             reserve N bytes for later edits in place; N may
                            end in KiB or MiB
      --durability D        after a power cut there is
                            full  the new file (default)
                            file  the old file or the new one
                            none  no guarantee
      --json                one JSON document, schema safetensors.meta/1
  -h, --help                this text

examples:
  safetensors meta ls model.safetensors
  safetensors meta get model.safetensors format
  safetensors meta set model.safetensors license=apache-2.0 --dry-run
  safetensors meta rm model.safetensors draft --in-place

exit: 0 done; 1 the file is invalid, KEY does not exist, or the header does
      not fit in place; 2 usage; 3 the file cannot be read or written
)";

Exit list(const std::vector<std::string>& given, bool as_json, Console& console) {
  if (given.size() != 2) return console.usage("meta", "ls takes one FILE");
  const Result<File> file = open_file(given[1], console);
  std::optional<Json> json;
  if (as_json) json.emplace(console, "meta").field("path", given[1]);
  if (!file) {
    if (json) {
      json->error(file.error());
      json->finish();
    }
    return console.error(given[1], file.error());
  }
  const Metadata metadata = file->header().metadata();
  if (!json) {
    for (const auto& [key, value] : metadata) {
      console.out(formatted("{} = {}\n", printable(key), printable(value)));
    }
    return Exit::good;
  }
  json->key("metadata");
  if (!metadata.present()) {
    json->null();
  } else {
    json->open('{');
    for (const auto& [key, value] : metadata) json->line().field(key, value);
    json->close('}');
  }
  json->finish();
  return Exit::good;
}

Exit get(const std::vector<std::string>& given, bool as_json, Console& console) {
  if (given.size() != 3) return console.usage("meta", "get takes one FILE and one KEY");
  const Result<File> file = open_file(given[1], console);
  const auto pair = file ? find_metadata(file->header(), given[2]) : std::nullopt;
  const Error missing = {
      .code = Errc::not_found, .path = {}, .message = formatted("no metadata key `{}`", printable(given[2]))};
  const Error* error = !file ? &file.error() : !pair ? &missing : nullptr;
  if (as_json) {
    Json json(console, "meta");
    json.field("path", given[1]);
    if (error != nullptr) {
      json.error(*error);
    } else {
      json.field("key", pair->first).field("value", pair->second);
    }
    json.finish();
  } else if (error == nullptr) {
    console.out(console.out_is_terminal() ? visible(pair->second) : std::string(pair->second));
    console.out("\n");
  }
  return error == nullptr ? Exit::good : console.error(given[1], *error);
}

Exit run_meta(std::span<const std::string> arguments_given, Console& console) {
  std::vector<std::string> given;
  std::optional<std::string> slack;
  std::optional<std::string> durability;
  MetaEdit edit;
  Arguments arguments;
  arguments.positionals(given);
  arguments.flag("--json", edit.json);
  arguments.flag("--dry-run", edit.dry_run);
  arguments.flag("--in-place", edit.options.in_place);
  arguments.value("--slack", slack);
  arguments.value("--durability", durability);
  if (const auto wrong = arguments.parse(arguments_given)) return console.usage("meta", *wrong);
  const std::string action = given.empty() ? "" : given[0];
  const bool edits = action == "set" || action == "rm";
  if (!edits && (edit.dry_run || edit.options.in_place || slack || durability)) {
    return console.usage("meta", "--dry-run, --in-place, --slack and --durability go with set and rm");
  }
  if (action == "ls") return list(given, edit.json, console);
  if (action == "get") return get(given, edit.json, console);
  if (!edits) return console.usage("meta", "what to do: ls, get, set or rm?");
  const auto slack_bytes = parse_bytes(slack.value_or("0"));
  if (!slack_bytes) return console.usage("meta", "--slack is a number of bytes, such as 4096 or 4KiB");
  if (slack && edit.options.in_place) return console.usage("meta", "--slack goes with a new file, not with --in-place");
  edit.options.metadata_slack = *slack_bytes;
  const std::string wanted = durability.value_or("full");
  if (wanted != "full" && wanted != "file" && wanted != "none") {
    return console.usage("meta", formatted("--durability is full, file or none, not {}", printable(wanted)));
  }
  edit.options.write.durability = wanted == "full"   ? Durability::full
                                  : wanted == "file" ? Durability::file
                                                     : Durability::none;
  return run_meta_edit(edit, given, console);
}

}  // namespace

const Command kMeta = {"meta", "show and change metadata: meta ls, get, set, rm", kMetaHelp, run_meta};

}  // namespace safetensors::cli
