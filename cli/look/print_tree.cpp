// Prints the modules of a model, indented by their level.
#include "input.h"
#include "module_tree.h"
#include "text/formatted.h"
#include "text/size.h"
#include "text/table.h"

namespace safetensors::cli {
namespace {

void add_rows(Table& table, const std::vector<ModuleNode>& nodes, std::uint64_t bytes, const std::string& indent) {
  for (const ModuleNode& node : nodes) {
    table.row({indent + printable(node.name), grouped(node.tensors), grouped(node.parameters), size_text(node.bytes),
               share_text(node.bytes, bytes), node.tensor == nullptr ? "" : std::string(to_string(node.tensor->dtype)),
               node.tensor == nullptr ? "" : shape_text(node.tensor->shape)});
    add_rows(table, node.children, bytes, indent + "  ");
  }
}

}  // namespace

void print_tree(Console& console, const std::vector<ModuleNode>& nodes, std::uint64_t bytes, bool heading) {
  using Align = Table::Align;
  using Narrow = Table::Narrow;
  Table table({{"MODULE", Align::left, Narrow::name},
               {"TENSORS", Align::right},
               {"PARAMETERS", Align::right, Narrow::hide},
               {"SIZE", Align::right},
               {"SHARE", Align::right, Narrow::hide},
               {"DTYPE"},
               {"SHAPE"}});
  add_rows(table, nodes, bytes, "");
  table.print(console, heading);
}

void print_tree(Json& json, const std::vector<ModuleNode>& nodes) {
  json.open('[');
  for (const ModuleNode& node : nodes) {
    json.line().open('{').field("name", node.name);
    if (node.modules > 1) json.field("modules", node.modules);
    json.field("tensor_count", node.tensors);
    json.field("parameters", node.parameters).field("nbytes", node.bytes);
    if (node.tensor != nullptr) {
      json.field("dtype", to_string(node.tensor->dtype)).field("shape", node.tensor->shape);
    } else {
      print_tree(json.key("children"), node.children);
    }
    json.close('}');
  }
  json.close(']');
}

}  // namespace safetensors::cli
