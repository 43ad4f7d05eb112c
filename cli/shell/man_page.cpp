// Writes manual pages in the macros of man(7), which groff and mandoc know. Every dash is written \-, because readers
// copy options from a page, and - alone may become another character. The pages have no date, so the same source always
// gives the same page.
#include "man_page.h"

#include "help_parts.h"
#include "text/formatted.h"

#include <safetensors/c.h>

#include <algorithm>

namespace safetensors::cli {
namespace {

// Returns one line of text that prints as it is.
std::string roff(std::string_view text) {
  std::string out;
  if (text.starts_with('.')) out += "\\&";  // otherwise a request
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string roff_bold(std::string_view text) {
  return formatted("\\fB{}\\fR", roff(text));
}

// The lines as they stand.
std::string as_is(std::string_view text) {
  std::string out = ".nf\n";
  for (const std::string_view line : split_lines(text)) out += roff(line) + "\n";
  return out + ".fi\n";
}

std::string roff_lines(std::string_view text) {
  std::string out;
  for (const std::string_view line : split_lines(text)) out += roff(line) + "\n";
  return out;
}

std::string roff_paragraphs(const char* text) {
  std::string out;
  for (const Paragraph& paragraph : split_paragraphs(text == nullptr ? "" : text)) {
    out += ".PP\n";
    out += paragraph.preformatted ? as_is(paragraph.text) : roff_lines(paragraph.text);
  }
  return out;
}

// The first paragraph of a section has no .PP.
std::string roff_section(std::string_view title, std::string_view body) {
  if (body.empty()) return "";
  if (body.starts_with(".PP\n")) body.remove_prefix(4);
  return formatted(".SH {}\n{}", title, body);
}

std::string roff_rows(const std::vector<TextRow>& rows) {
  if (rows.empty()) return "";
  std::size_t widest = 0;
  for (const TextRow& row : rows) widest = std::max(widest, row.word.size());
  std::string out = ".RS\n.PD 0\n";
  for (const TextRow& row : rows)
    out += formatted(".TP {}n\n{}\n{}\n", widest + 2, roff_bold(row.word), roff(row.meaning));
  return out + ".PD\n.RE\n";
}

std::string option_entry(const Command& command, const Option& option) {
  std::string out = ".TP\n";
  if (option_letter(option) != '\0') out += roff_bold(formatted("-{}", option_letter(option))) + ", ";
  out += roff_bold(formatted("--{}", option_name(option)));
  if (option.value != nullptr) out += formatted(" \\fI{}\\fR", roff(option.value));
  const OptionText parts = parse_option_text(command, option);
  out += formatted("\n{}\n", parts.text.empty() ? "One of these values:" : roff(parts.text));
  out += roff_rows(parts.rows);
  return parts.after.empty() ? out : out + ".IP\n" + roff(parts.after) + "\n";
}

std::string options_section(const Command& command) {
  std::string out;
  if (command.options_heading != nullptr) {
    std::string heading = command.options_heading;
    heading[0] = static_cast<char>(heading[0] >= 'a' && heading[0] <= 'z' ? heading[0] - ('a' - 'A') : heading[0]);
    out += roff(heading) + "\n";
  }
  for (const Option& option : options_and_help(command)) out += option_entry(command, option);
  return out;
}

// The forms of a command, with its name in bold.
std::string synopsis(std::string_view usage, std::string_view name) {
  std::string out = ".nf\n";
  for (const std::string_view line : split_lines(usage)) {
    out += line.starts_with(name) ? roff_bold(name) + roff(line.substr(name.size())) : roff(line);
    out += '\n';
  }
  return out + ".fi\n";
}

std::string exits_section(std::string_view exits) {
  std::string out;
  for (const TextRow& row : parse_exits(exits))
    out += formatted(".TP\n{}\n{}\n", roff_bold(row.word), roff(row.meaning));
  return out;
}

std::string page_header(const std::string& name) {
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c);
  return formatted(
      ".\\\" Made from the table of commands by \"safetensors man\".\n.TH {} 1 \"\" \"safetensors {}\" \"User "
      "Commands\"\n",
      roff(upper), roff(safetensors_version_string()));
}

// ".BR a (1)," for each page.
std::string see_also(const std::vector<std::string>& pages) {
  std::string out;
  for (const std::string& page : pages) {
    out += formatted("{}.BR {} (1)", out.empty() ? "" : ",\n", roff(page));
  }
  return out + "\n";
}

std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>') {
      out += c == '<' ? "&lt;" : "&gt;";
      continue;
    }
    if (c == '*' || c == '|' || c == '[' || c == ']' || c == '_' || c == '\\' || c == '`') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string man_page(const Command& command) {
  const std::string name = formatted("safetensors-{}", command.name);
  std::string page = page_header(name);
  page += roff_section("NAME", formatted("{} \\- {}\n", roff(name), roff(command.summary)));
  page += roff_section("SYNOPSIS", synopsis(command.usage, formatted("safetensors {}", command.name)));
  page += roff_section("DESCRIPTION", roff(command.title) + "\n" + roff_paragraphs(command.description));
  page += roff_section("OPTIONS", options_section(command));
  page += roff_section("NOTES", roff_paragraphs(command.details));
  page += roff_section("EXIT STATUS", exits_section(command.exits));
  std::string examples;
  for (const char* example : command.examples) (examples += example) += '\n';
  if (!examples.empty()) page += roff_section("EXAMPLES", as_is(examples));
  return page + roff_section("SEE ALSO", see_also({"safetensors"}));
}

std::string overview_page() {
  std::string page = page_header("safetensors");
  std::string title(kOverview.title);
  title[0] = static_cast<char>(title[0] + ('a' - 'A'));
  title.pop_back();
  page += roff_section("NAME", formatted("safetensors \\- {}\n", roff(title)));
  page += roff_section("SYNOPSIS", synopsis(kOverview.usage, "safetensors"));
  page += roff_section("DESCRIPTION", roff_paragraphs(kOverview.notes));
  std::vector<std::string> pages;
  std::string commands;
  for (const CommandGroup& group : command_groups()) {
    std::string heading(group.heading);
    heading[0] = static_cast<char>(heading[0] - ('a' - 'A'));
    commands += formatted(".SS {}\n", roff(heading));
    for (const Command* command : group.commands) {
      pages.push_back(formatted("safetensors-{}", command->name));
      commands += formatted(".TP\n.BR {} (1)\n{}\n", roff(pages.back()), roff(command->summary));
    }
  }
  page += roff_section("COMMANDS", commands);
  page += roff_section("EXIT STATUS", exits_section(kOverview.exits) + ".PP\n" + roff(kOverview.exit_note) + "\n");
  page += roff_section("ENVIRONMENT", ".TP\n.B NO_COLOR\nturns colours off\n");
  std::ranges::sort(pages);
  return page + roff_section("SEE ALSO", see_also(pages));
}

std::string options_table(const Command& command) {
  std::string out = "| option | meaning |\n|---|---|\n";
  for (const Option& option : command.options) {
    const OptionText parts = parse_option_text(command, option);
    std::string names = option_letter(option) != '\0' ? formatted("`-{}`, ", option_letter(option)) : "";
    names += formatted("`--{}{}{}`", option_name(option), option.value == nullptr ? "" : " ",
                       option.value == nullptr ? "" : option.value);
    std::string meaning = markdown_text(parts.text);
    for (const TextRow& row : parts.rows)
      meaning += formatted("{}`{}`: {}", meaning.empty() ? "" : "<br>", row.word, markdown_text(row.meaning));
    if (!parts.after.empty()) meaning += "<br>" + markdown_text(parts.after);
    out += formatted("| {} | {} |\n", names, meaning);
  }
  return out;
}

}  // namespace safetensors::cli
