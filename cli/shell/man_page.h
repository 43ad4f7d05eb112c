// Manual pages and tables for documents, made from the table of commands.
#pragma once

#include "command.h"

#include <string>

namespace safetensors::cli {

// The page safetensors(1), and the page safetensors-NAME(1), in the macros of man(7).
[[nodiscard]] std::string overview_page();
[[nodiscard]] std::string man_page(const Command& command);

// The options of a command, as a table in Markdown.
[[nodiscard]] std::string options_table(const Command& command);

}  // namespace safetensors::cli
