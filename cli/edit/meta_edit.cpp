// Plans an edit of the metadata first: the sizes that --dry-run shows, and the errors. The library then edits the file.
#include "meta_edit.h"

#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "text/escape.h"
#include "text/formatted.h"
#include "text/size.h"

#include "base/utf8.h"
#include "format/header/header_edit.h"

namespace safetensors::cli {
namespace {

using Edits = std::vector<MetadataEdit>;
using OldValues = std::vector<std::optional<std::string>>;  // in the order of the edits

// Returns nullopt, or the text of an error in the command line.
std::optional<std::string> parse_edits(const std::vector<std::string>& given, Edits& edits) {
  const bool set = given[0] == "set";
  if (given.size() < 3) return set ? "set takes one FILE and KEY=VALUE..." : "rm takes one FILE and KEY...";
  for (std::size_t i = 2; i < given.size(); ++i) {
    const std::size_t equals = given[i].find('=');
    if (set && equals == std::string::npos) return formatted("{} is not KEY=VALUE", printable(given[i]));
    if (base::first_invalid_utf8(given[i]) != std::string_view::npos)
      return formatted("{} is not UTF-8", printable(given[i]));
    MetadataEdit edit{given[i], std::nullopt};
    if (set) edit = {given[i].substr(0, equals), given[i].substr(equals + 1)};
    for (const MetadataEdit& other : edits) {
      if (other.key == edit.key) return formatted("{} is given twice", printable(edit.key));
    }
    edits.push_back(std::move(edit));
  }
  return std::nullopt;
}

struct Plan {
  std::uint64_t header_bytes = 0;  // after the edit
  std::uint64_t file_bytes = 0;
};

// The sizes that edit_metadata() would produce, or its error.
Result<Plan> plan_edit(const Header& header, const Edits& edits, const EditOptions& options) {
  format::MetadataEdits by_key;  // one key may be given exact and escaped: the last edit wins
  for (const MetadataEdit& edit : edits) by_key[edit.key] = &edit.value;
  const Result<std::string> text = format::edited_text(header, by_key);
  if (!text) return text.error();
  const std::uint64_t size = text->size();
  if (options.in_place) {
    if (size <= header.header_bytes()) return Plan{header.header_bytes(), header.file_bytes()};
    return Error{
        .code = Errc::header_does_not_fit,
        .path = {},
        .message = formatted(
            "the new header does not fit: {} bytes, the old one has {} (without --in-place, a new file is written)",
            size, header.header_bytes())};
  }
  const std::uint64_t max = options.parse.max_header_bytes;
  const std::uint64_t padded = options.metadata_slack > max ? max + 1 : (size + options.metadata_slack + 7) / 8 * 8;
  if (padded <= max) return Plan{padded, 8 + padded + header.data_bytes()};
  return Error{.code = Errc::header_too_large,
               .path = {},
               .message = formatted("header too large: it would be over {} bytes", max)};
}

void print_plan(Console& console, const Header& header, const Edits& edits, const Plan& plan, bool in_place) {
  for (const MetadataEdit& edit : edits) {
    const auto old = header.metadata().find(edit.key);
    const std::string before = old ? formatted(", which is {}", shortened(*old, 60)) : std::string();
    console.out(edit.value
                    ? formatted("would set {} to {}{}\n", printable(edit.key), shortened(*edit.value, 60), before)
                    : formatted("would remove {}{}\n", printable(edit.key), before));
  }
  console.out(in_place ? formatted("would overwrite the header in place, {}\n", counted(plan.header_bytes, "byte"))
                       : formatted("would write a new file: header {} (now {}), file {} (now {})\n",
                                   counted(plan.header_bytes, "byte"), grouped(header.header_bytes()),
                                   counted(plan.file_bytes, "byte"), grouped(header.file_bytes())));
}

template <class Text>
void string_or_null(Json& json, const std::optional<Text>& text) {
  if (text) {
    json.string(*text);
  } else {
    json.null();
  }
}

void print_json(Console& console, const std::string& path, const MetaEdit& edit, const Edits& edits,
                const OldValues& old, const Plan* plan, const Error* error) {
  Json json(console, "meta");
  json.field("path", path).field("dry_run", edit.dry_run).field("in_place", edit.options.in_place);
  json.field("changed", error == nullptr && !edit.dry_run);
  if (error != nullptr) {
    json.error(*error);
  } else {
    json.field("header_bytes", plan->header_bytes).field("file_bytes", plan->file_bytes).key("edits").open('[');
    for (std::size_t i = 0; i < edits.size(); ++i) {
      json.line().open('{').field("key", edits[i].key).key("old");
      string_or_null(json, old[i]);
      json.key("new");
      string_or_null(json, edits[i].value);
      json.close('}');
    }
    json.close(']');
  }
  json.finish();
}

// For rm: replaces each key by the key in the file, which the user may have given escaped. Error: not_found.
Status find_keys(const Header& header, Edits& edits) {
  for (MetadataEdit& edit : edits) {
    if (edit.value) continue;
    const auto pair = find_metadata(header, edit.key);
    if (!pair) {
      return Error{.code = Errc::not_found,
                   .path = {},
                   .message = formatted("no metadata key `{}`; nothing was changed", printable(edit.key))};
    }
    edit.key = std::string(pair->first);
  }
  return {};
}

// Edits the file. A signal stops the copy: the library removes the unfinished file, and the process ends by the signal.
Status write_edit(const std::string& path, const Edits& edits, EditOptions options, Console& console) {
  const Interrupt interrupt;
  options.write.progress = [&console](std::uint64_t done, std::uint64_t total) {
    console.progress(done, total);
    return !Interrupt::caught();
  };
  return edit_metadata(path, edits, options);
}

}  // namespace

Exit run_meta_edit(const MetaEdit& edit, const std::vector<std::string>& given, Console& console) {
  Edits edits;
  if (const auto wrong = parse_edits(given, edits)) return console.usage("meta", *wrong);
  if (given[1] == kStandardInput) return console.usage("meta", "set and rm need a file, not standard input");
  EditOptions options = edit.options;
  options.parse.allow_leading_whitespace = true;
  std::optional<Result<File>> file(open_file(given[1], console));
  const std::string path = *file ? (*file)->path() : given[1];  // of the only file of a folder
  const Header* header = *file ? &(*file)->header() : nullptr;
  const Status found = header != nullptr ? find_keys(*header, edits) : Status(file->error());
  const Result<Plan> plan = found ? plan_edit(*header, edits, options) : Result<Plan>(found.error());
  Status status = plan ? Status() : Status(plan.error());
  OldValues old;
  for (const MetadataEdit& change : edits) {
    old.emplace_back();
    const auto value = status ? header->metadata().find(change.key) : std::nullopt;
    if (value) old.back() = std::string(*value);
  }
  if (status && !edit.dry_run) {
    file.reset();  // the library reads the header again
    status = write_edit(path, edits, options, console);
  }
  const Error* error = status ? nullptr : &status.error();
  if (edit.json) {
    print_json(console, path, edit, edits, old, plan ? &*plan : nullptr, error);
  } else if (error == nullptr && edit.dry_run) {
    print_plan(console, *header, edits, *plan, options.in_place);
  }
  return error == nullptr ? Exit::good : console.error(path, *error);
}

std::optional<Metadata::value_type> find_metadata(const Header& header, std::string_view key) {
  if (const auto value = header.metadata().find(key)) return Metadata::value_type{key, *value};
  if (key.find('\\') == std::string_view::npos) return std::nullopt;
  for (const auto& pair : header.metadata()) {
    if (printable(pair.first) == key) return pair;
  }
  return std::nullopt;
}

}  // namespace safetensors::cli
