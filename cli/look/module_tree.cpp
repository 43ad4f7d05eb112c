// Splits names at their dots, level by level, and gives equal subtrees equal numbers: a subtree is described by the
// names and numbers of its children, and each description gets one number. So two layers are compared in one step, and
// children with numbers for names and with equal subtrees become one node.
#include "module_tree.h"

#include "input.h"
#include "text/table.h"
#include "text/text.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

namespace safetensors::cli {
namespace {

constexpr unsigned kMaxLevels = 16;  // a name may have millions of dots

struct NameRest {
  std::string_view rest;  // of the name
  const TensorInfo* tensor;
};

// A node under construction. Equal IDs stand for equal texts.
struct Built {
  ModuleNode node;
  std::size_t name_id = 0;     // of its own component
  std::size_t subtree_id = 0;  // of its content: the names, dtypes and shapes of its tensors
};

void add_counts(ModuleNode& to, const ModuleNode& from) {
  to.tensors += from.tensors;
  to.parameters += from.parameters;
  to.bytes += from.bytes;
  for (std::size_t i = 0; i < to.children.size(); ++i) add_counts(to.children[i], from.children[i]);
}

// The value of a name that is a number of up to 18 digits.
std::optional<std::uint64_t> number_of(std::string_view name) {
  constexpr std::size_t kDigits = 18;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  const bool whole = error == std::errc() && end == name.data() + name.size() && name.size() <= kDigits;
  return whole ? std::optional(value) : std::nullopt;
}

// The names of children that became one: "{0..2,4}".
class NumberSet {
 public:
  void add(const std::string& name, std::uint64_t value) {
    ++count_;
    if (!ranges_.empty() && ranges_.back().end == value) {
      ranges_.back().last = name;
      ++ranges_.back().end;
    } else {
      ranges_.push_back({name, name, value + 1});
    }
  }
  [[nodiscard]] std::string text() const {
    constexpr std::size_t kShown = 8;
    if (count_ == 1) return ranges_[0].first;
    std::string text = "{";
    for (std::size_t i = 0; i < ranges_.size() && i < kShown; ++i) {
      text += (i == 0 ? "" : ",") + ranges_[i].first;
      if (ranges_[i].first != ranges_[i].last) text += ".." + ranges_[i].last;
    }
    return text + (ranges_.size() > kShown ? ",...}" : "}");
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  // All ranges, for comparisons.
  [[nodiscard]] std::string whole() const {
    std::string text;
    for (const Range& range : ranges_) text += range.first + " " + range.last + " ";
    return text;
  }

 private:
  struct Range {
    std::string first;
    std::string last;
    std::uint64_t end;
  };
  std::vector<Range> ranges_;
  std::uint64_t count_ = 0;
};

class TreeBuilder {
 public:
  explicit TreeBuilder(bool by_size) : by_size_(by_size) {}

  std::vector<Built> build(const std::vector<NameRest>& items, unsigned level) {
    std::vector<Built> built;
    std::vector<std::pair<std::string_view, std::vector<NameRest>>> modules;
    std::map<std::string_view, std::size_t> places;
    std::vector<std::size_t> order;  // of built, or beyond it of modules
    constexpr std::size_t kModule = std::size_t{1} << 63;
    for (const NameRest& item : items) {
      const std::size_t dot = level + 1 < kMaxLevels ? item.rest.find('.') : std::string_view::npos;
      if (dot == std::string_view::npos) {
        order.push_back(built.size());
        built.push_back(leaf(item));
        continue;
      }
      const auto [place, added] = places.emplace(item.rest.substr(0, dot), modules.size());
      if (added) {
        order.push_back(kModule | modules.size());
        modules.emplace_back(place->first, std::vector<NameRest>());
      }
      modules[place->second].second.push_back({item.rest.substr(dot + 1), item.tensor});
    }
    std::vector<Built> children;
    for (const std::size_t place : order) {
      if ((place & kModule) == 0) {
        children.push_back(std::move(built[place]));
      } else {
        auto& [name, inside] = modules[place & ~kModule];
        children.push_back(module(name, build(inside, level + 1)));
        inside = {};
      }
    }
    return fold(std::move(children));
  }

 private:
  Built leaf(const NameRest& item) {
    const TensorInfo& tensor = *item.tensor;
    Built built;
    built.node = {std::string(item.rest), 1, 1, cli::parameters(tensor), tensor.nbytes(), &tensor, {}};
    built.name_id = id_of("name " + built.node.name);
    std::string text = "tensor " + std::string(to_string(tensor.dtype));
    for (const std::uint64_t size : tensor.shape) text += " " + std::to_string(size);
    built.subtree_id = id_of(std::move(text));
    return built;
  }

  Built module(std::string_view name, std::vector<Built> children) {
    Built built;
    std::string text = "module";
    built.node.name = name;
    built.name_id = id_of("name " + built.node.name);
    for (Built& child : children) {
      text += described(child);
      built.node.tensors += child.node.tensors;
      built.node.parameters += child.node.parameters;
      built.node.bytes += child.node.bytes;
      built.node.children.push_back(std::move(child.node));
    }
    built.subtree_id = id_of(std::move(text));
    return built;
  }

  // Makes one node of children with numbers for names and with equal subtrees. Joins each module with its only child.
  std::vector<Built> fold(std::vector<Built> children) {
    std::vector<Built> folded;
    std::map<std::size_t, std::size_t> first;  // subtree_id -> index in folded
    std::map<std::size_t, NumberSet> names;    // by index in folded
    for (Built& child : children) {
      const std::optional<std::uint64_t> value = number_of(child.node.name);
      if (!value) {
        folded.push_back(std::move(child));
        continue;
      }
      const auto [place, added] = first.emplace(child.subtree_id, folded.size());
      names[place->second].add(child.node.name, *value);
      if (added) {
        folded.push_back(std::move(child));
      } else {
        add_counts(folded[place->second].node, child.node);
      }
    }
    for (const auto& [index, set] : names) {
      if (set.count() == 1) continue;
      Built& built = folded[index];
      built.node.name = set.text();
      built.node.modules = set.count();
      built.name_id = id_of("numbers " + set.whole());
    }
    for (Built& built : folded) join_only_child(built.node);
    if (by_size_)
      std::ranges::stable_sort(folded, [](const Built& a, const Built& b) { return a.node.bytes > b.node.bytes; });
    return folded;
  }

  // A module with one child becomes one node with it.
  static void join_only_child(ModuleNode& node) {
    if (node.children.size() != 1) return;
    ModuleNode child = std::move(node.children[0]);
    child.name = node.name + "." + child.name;
    child.modules *= node.modules;
    node = std::move(child);
  }

  static std::string described(const Built& built) {
    return " " + std::to_string(built.name_id) + "." + std::to_string(built.subtree_id);
  }
  std::size_t id_of(std::string text) { return ids_.emplace(std::move(text), ids_.size()).first->second; }

  const bool by_size_;
  std::map<std::string, std::size_t> ids_;
};

void add_rows(Table& table, const std::vector<ModuleNode>& nodes, std::uint64_t bytes, const std::string& indent) {
  for (const ModuleNode& node : nodes) {
    table.row({indent + printable(node.name), grouped(node.tensors), grouped(node.parameters), size_text(node.bytes),
               share_text(node.bytes, bytes), node.tensor == nullptr ? "" : std::string(to_string(node.tensor->dtype)),
               node.tensor == nullptr ? "" : shape_text(node.tensor->shape)});
    add_rows(table, node.children, bytes, indent + "  ");
  }
}

}  // namespace

std::vector<ModuleNode> make_module_tree(std::span<const TensorInfo* const> tensors, bool by_size) {
  std::vector<NameRest> items;
  items.reserve(tensors.size());
  for (const TensorInfo* const tensor : tensors) items.push_back({tensor->name, tensor});
  std::vector<ModuleNode> nodes;
  for (Built& built : TreeBuilder(by_size).build(items, 0)) nodes.push_back(std::move(built.node));
  return nodes;
}

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
