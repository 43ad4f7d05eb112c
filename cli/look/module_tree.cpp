// Splits names at their dots, level by level, and gives equal subtrees equal numbers: a subtree is described by the
// names and numbers of its children, and each description gets one number. So two layers are compared in one step, and
// children with numbers for names and with equal subtrees become one node.
#include "module_tree.h"

#include "input.h"
#include "rows.h"
#include "text/text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace safetensors::cli {
namespace {

// A module, a tensor, or several of them with the same content.
struct ModuleNode {
  // One component of names, or several that follow each other. In braces: the numbers of folded modules, such as
  // "layers.{0..31}". A long list of numbers is cut.
  std::string name;
  std::uint64_t modules = 1;  // number of modules or tensors that this node stands for, in one parent
  Totals totals;
  const TensorInfo* tensor = nullptr;  // null for a module; of several tensors it is the first
  std::vector<ModuleNode> children;
};

constexpr unsigned kMaxLevels = 16;     // a name may have millions of dots
constexpr std::size_t kMaxDigits = 18;  // of a name that is a number

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
  to.totals.add(from.totals);
  for (std::size_t i = 0; i < to.children.size(); ++i) add_counts(to.children[i], from.children[i]);
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
  // limit: the number of ranges shown.
  [[nodiscard]] std::string text(std::size_t limit) const {
    std::string text = "{";
    for (std::size_t i = 0; i < ranges_.size() && i < limit; ++i) {
      text += (i == 0 ? "" : ",") + ranges_[i].first;
      if (ranges_[i].first != ranges_[i].last) text += ".." + ranges_[i].last;
    }
    return text + (ranges_.size() > limit ? ",...}" : "}");
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }

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
    struct Child {
      std::string_view name;
      const NameRest* leaf = nullptr;     // a tensor
      std::vector<NameRest> inside = {};  // of a module
    };
    std::vector<Child> found;
    std::map<std::string_view, std::size_t> places;  // of the modules
    for (const NameRest& item : items) {
      const std::size_t dot = level + 1 < kMaxLevels ? item.rest.find('.') : std::string_view::npos;
      if (dot == std::string_view::npos) {
        found.push_back({item.rest, &item});
        continue;
      }
      const auto [place, added] = places.emplace(item.rest.substr(0, dot), found.size());
      if (added) found.push_back({place->first});
      found[place->second].inside.push_back({item.rest.substr(dot + 1), item.tensor});
    }
    std::vector<Built> children;
    children.reserve(found.size());
    for (Child& child : found) {
      children.push_back(child.leaf != nullptr ? leaf(*child.leaf)
                                               : module(child.name, build(std::exchange(child.inside, {}), level + 1)));
    }
    return fold(std::move(children));
  }

 private:
  Built leaf(const NameRest& item) {
    const TensorInfo& tensor = *item.tensor;
    Built built;
    built.node.name = item.rest;
    built.node.totals.add(tensor);
    built.node.tensor = &tensor;
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
      built.node.totals.add(child.node.totals);
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
      const std::string& name = child.node.name;
      const auto value = name.size() <= kMaxDigits ? parse_number(name) : std::nullopt;
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
      built.node.name = set.text(8);
      built.node.modules = set.count();
      built.name_id = id_of("numbers " + set.text(SIZE_MAX));
    }
    for (Built& built : folded) join_only_child(built.node);
    if (by_size_)
      std::ranges::stable_sort(
          folded, [](const Built& a, const Built& b) { return a.node.totals.bytes > b.node.totals.bytes; });
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

void add_rows(Rows& rows, const std::vector<ModuleNode>& nodes, std::uint64_t bytes, const std::string& indent) {
  for (const ModuleNode& node : nodes) {
    const Rows::Row row = {Cell(node.name).shown(indent + printable(node.name)),
                           node.modules > 1 ? Cell(node.modules) : Cell(),
                           node.totals.tensors,
                           node.totals.parameters,
                           Cell::bytes(node.totals.bytes),
                           Cell().shown(share_text(node.totals.bytes, bytes)),
                           node.tensor == nullptr ? Cell() : Cell(to_string(node.tensor->dtype)),
                           node.tensor == nullptr ? Cell() : Cell(ShapeView(node.tensor->shape))};
    if (node.tensor != nullptr) {
      rows.row(row);
    } else {
      rows.row(row, "children", [&] { add_rows(rows, node.children, bytes, indent + "  "); });
    }
  }
}

}  // namespace

void show_modules(Console& console, Json* json, std::span<const TensorInfo* const> tensors, bool by_size,
                  std::uint64_t bytes, bool heading) {
  std::vector<NameRest> items;
  items.reserve(tensors.size());
  for (const TensorInfo* const tensor : tensors) items.push_back({tensor->name, tensor});
  std::vector<ModuleNode> nodes;
  for (Built& built : TreeBuilder(by_size).build(items, 0)) nodes.push_back(std::move(built.node));
  Rows rows(console, json, "modules",
            {{"name", "MODULE", kLeft, Table::Narrow::name},
             {"modules", nullptr},
             {"tensor_count", "TENSORS", kRight},
             {"parameters", "PARAMETERS", kRight, kHide},
             {"nbytes", "SIZE", kRight},
             {nullptr, "SHARE", kRight, kHide},
             {"dtype", "DTYPE"},
             {"shape", "SHAPE"}});
  add_rows(rows, nodes, bytes, "");
  rows.finish(heading);
}

}  // namespace safetensors::cli
