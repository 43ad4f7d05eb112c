// The subcommand verify: opens each file, which checks all rules of the format, and prints a verdict per file.
#include "arguments.h"
#include "command.h"
#include "each_file.h"
#include "formatted.h"
#include "json_output.h"
#include "open_file.h"
#include "size.h"

namespace safetensors::cli {
namespace {

constexpr const char kVerifyHelp[] = R"(Check files against every rule of the format.

usage: safetensors verify FILE... [--allow-leading-whitespace]
                          [--max-header-bytes N] [--json]

Prints one verdict per file: ok, or invalid with the reason, the offset of the
byte and the number of the broken rule. docs/format.md lists the rules: 1-3 the
length of the header, 4 UTF-8, 5 JSON, 6 offsets, 7 overflow, 8 whole bytes,
9 sizes, 10 the length of the file. There are no rules for the data, so it is
not read.

      --allow-leading-whitespace   accept white space before the header's {
      --max-header-bytes N         accept headers up to N bytes; N may end in
                                   KiB, MiB or GiB (default 100000000)
      --json                       one JSON document, schema
                                   safetensors.verify/1
  -h, --help                       this text

examples:
  safetensors verify model.safetensors
  safetensors verify --json *.safetensors | jq '.files[] | select(.valid|not)'

exit: 0 all files are valid; 1 a file is invalid or empty; 2 usage;
      3 a file cannot be read
)";

void print_json(Json& json, const Result<File>& file) {
  if (file) {
    const Header& header = file->header();
    json.field("valid", true).field("tensor_count", std::uint64_t{header.size()});
    json.field("file_bytes", header.file_bytes()).field("header_bytes", header.header_bytes());
    json.field("nbytes", header.data_bytes());
  } else if (exit_of(file.error()) == Exit::system) {
    json.key("valid").null().error(file.error());
  } else {
    json.field("valid", false).error(file.error());
  }
}

void print_text(Console& console, const std::string& path, const Result<File>& file) {
  if (file) {
    const Header& header = file->header();
    console.out(formatted("{}: {}, {}, {}\n", printable(path), console.green("ok"), counted(header.size(), "tensor"),
                          counted(header.file_bytes(), "byte")));
  } else if (exit_of(file.error()) != Exit::system) {
    console.out(formatted("{}: {}: {}\n", printable(path), console.red("invalid"), describe(file.error())));
  }
}

Exit run_verify(std::span<const std::string> given, Console& console) {
  std::vector<std::string> files;
  std::optional<std::string> max_header;
  OpenOptions options{.access = Access::read, .parse = {}};
  bool as_json = false;
  Arguments arguments;
  arguments.positionals(files);
  arguments.flag("--allow-leading-whitespace", options.parse.allow_leading_whitespace);
  arguments.value("--max-header-bytes", max_header);
  arguments.flag("--json", as_json);
  if (const auto wrong = arguments.parse(given)) return console.usage("verify", *wrong);
  if (files.empty()) return console.usage("verify", "which FILE?");
  if (max_header) {
    const auto number = parse_bytes(*max_header);
    if (!number) return console.usage("verify", "--max-header-bytes is a number of bytes, such as 100000000 or 1GiB");
    options.parse.max_header_bytes = *number;
  }
  return for_each_file("verify", files, as_json, console, [&](const std::string& path, Json* json) {
    const Result<File> file = File::open(path, options);
    if (json != nullptr) {
      print_json(*json, file);
    } else {
      print_text(console, path, file);
    }
    if (file) return Exit::good;
    const Exit result = exit_of(file.error());
    if (result == Exit::system) console.error(path, file.error());
    return result;
  });
}

}  // namespace

const Command kVerify = {"verify", "check files against every rule of the format", kVerifyHelp, run_verify};

}  // namespace safetensors::cli
