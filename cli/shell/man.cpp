// The subcommand man: prints the manual page of a command. The build runs it to make the pages that it installs.
#include "arguments.h"
#include "command.h"
#include "help_parts.h"
#include "json_output.h"
#include "man_page.h"
#include "text/formatted.h"

namespace safetensors::cli {
namespace {

constexpr const char kManDescription[] =
    R"(Prints the page of COMMAND, or of safetensors. The pages are made from the same
table as the help texts. cmake --install installs them, so that 'man
safetensors-ls' shows one.)";

constexpr Option kManTable[] = {
    {"--format", "FORMAT",
     "roff      a manual page, for man (default)\n"
     "markdown  the table of the options of COMMAND",
     "roff|markdown", Values::any, nullptr, "-f"},
    {"--json", nullptr,
     "one JSON document, schema safetensors.man/1; without\n"
     "COMMAND it has the pages of all commands"},
};

constexpr const char* kManExamples[] = {
    "safetensors man diff | man -l -",
    "safetensors man cat --format markdown",
};

void append_page(Json& json, std::string_view name, std::string_view text) {
  json.line().open('{').field("name", formatted("{}.1", name)).field("text", text).close('}');
}

// command: nullptr for all pages.
Exit print_pages(const Command* command, Console& console) {
  Json json(console, "man");
  json.key("pages").open('[');
  if (command != nullptr) append_page(json, formatted("safetensors-{}", command->name), man_page(*command));
  if (command == nullptr) {
    append_page(json, "safetensors", overview_page());
    for (const std::string_view name : command_names())
      append_page(json, formatted("safetensors-{}", name), man_page(*find_command(name)));
  }
  json.close(']');
  json.finish();
  return Exit::good;
}

Exit run_man(std::span<const std::string> given, Console& console) {
  std::vector<std::string> names;
  std::optional<std::string> format;
  bool as_json = false;
  Arguments arguments(kMan);
  arguments.positionals(names);
  arguments.value("format", format);
  arguments.flag("json", as_json);
  if (const auto wrong = arguments.parse(given, console)) return console.usage("man", *wrong);
  if (names.size() > 1) return console.usage("man", "one COMMAND at a time");
  const Command* const command = names.empty() ? nullptr : find_command(names[0]);
  if (!names.empty() && command == nullptr) return console.usage("man", no_command(names[0]));
  const bool as_markdown = format == "markdown";
  if (as_markdown && command == nullptr) return console.usage("man", "--format markdown needs a COMMAND");
  if (as_markdown && as_json) return console.usage("man", "--format markdown does not go with --json");
  if (as_json) return print_pages(command, console);
  console.out(as_markdown ? options_table(*command) : command == nullptr ? overview_page() : man_page(*command));
  return Exit::good;
}

}  // namespace

const Command kMan = {
    .name = "man",
    .summary = "print the manual page of a command",
    .title = "Print a manual page.",
    .usage = "safetensors man [COMMAND] [--format FORMAT] [--json]",
    .description = kManDescription,
    .options = kManTable,
    .words = kCommandWords,
    .arguments = Values::any,
    .examples = kManExamples,
    .exits = "0 printed; 2 usage",
    .run = run_man,
};

}  // namespace safetensors::cli
