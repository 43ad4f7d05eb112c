// The functions _shard_box and _reshard: boxes of a tensor that is cut over processes. A box is a pair of two sequences
// of integers, the offsets and the sizes.
#include <safetensors/reshard.h>

#include "module.h"

namespace safetensors::python {
namespace {

std::vector<std::uint64_t> to_numbers(nb::handle object) {
  std::vector<std::uint64_t> numbers;
  for (const nb::handle each : nb::iter(object)) numbers.push_back(to_unsigned(each));
  return numbers;
}

[[noreturn]] void raise_error(const Error& error) {
  if (error.code == Errc::out_of_memory) throw std::bad_alloc();
  raise(error.message, &error);
}

// placements: an integer for a dimension of the tensor that is cut, counted from the end if it is negative, or None.
std::vector<Placement> to_placements(nb::handle object, std::size_t dims) {
  std::vector<Placement> placements;
  for (const nb::handle each : nb::iter(object)) {
    if (each.is_none()) {
      placements.push_back(Placement::replicate());
      continue;
    }
    const nb::object number = own(PyNumber_Index(each.ptr()));
    int overflow = 0;
    const long long dim = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    const auto count = static_cast<long long>(dims);
    if (overflow != 0 || dim < -count || dim >= count)
      raise("placement " + std::to_string(placements.size()) + " is " + nb::cast<std::string>(nb::str(number)) +
            ", the tensor has " + std::to_string(dims) + " dimensions");
    placements.push_back(Placement::shard(static_cast<std::size_t>(dim < 0 ? dim + count : dim)));
  }
  return placements;
}

// The coordinate of a rank in a mesh whose ranks are in C order.
std::vector<std::uint64_t> coordinate_of(std::uint64_t rank, ShapeView mesh) {
  const std::uint64_t processes = numel(mesh);
  if (rank >= processes)
    raise("rank " + std::to_string(rank) + " is outside of the mesh " + to_string(mesh) + ", which has " +
          std::to_string(processes) + " ranks");
  std::vector<std::uint64_t> coordinate(mesh.size());
  for (std::size_t i = mesh.size(); i-- > 0; rank /= mesh[i]) coordinate[i] = rank % mesh[i];
  return coordinate;
}

nb::object to_pair(const Box& box) {
  return nb::make_tuple(to_tuple(box.begin), to_tuple(box.shape));
}

nb::object shard(nb::handle shape, nb::handle mesh, nb::handle rank, nb::handle placements) {
  const std::vector<std::uint64_t> dims = to_numbers(shape);
  const std::vector<std::uint64_t> sizes = to_numbers(mesh);
  const std::vector<std::uint64_t> coordinate = coordinate_of(to_unsigned(rank), sizes);
  const Result<Box> box = shard_box(dims, sizes, coordinate, to_placements(placements, dims.size()));
  if (!box) raise_error(box.error());
  return to_pair(*box);
}

std::vector<Box> to_boxes(nb::handle object) {
  std::vector<Box> boxes;
  for (const nb::handle each : nb::iter(object)) {
    check_signals(boxes.size());
    const nb::object offsets = each[0], sizes = each[1];
    boxes.push_back({Shape(ShapeView(to_numbers(offsets))), Shape(ShapeView(to_numbers(sizes)))});
  }
  return boxes;
}

nb::object transfers(nb::handle shape, nb::handle saved, nb::handle wanted) {
  const std::vector<std::uint64_t> dims = to_numbers(shape);
  const std::vector<Box> sources = to_boxes(saved);
  const std::vector<Box> targets = to_boxes(wanted);
  const Result<std::vector<Transfer>> found = [&] {
    const WithoutGil released;
    return reshard(dims, sources, targets);
  }();
  if (!found) raise_error(found.error());
  nb::list list;
  for (const Transfer& each : *found)
    list.append(nb::make_tuple(each.source, each.target, to_pair(each.in_source), to_pair(each.in_target)));
  return list;
}

}  // namespace

void define_reshard(nb::module_& module) {
  module.def("_shard_box", &shard, nb::arg("shape").none(), nb::arg("mesh").none(), nb::arg("rank").none(),
             nb::arg("placements").none(), "(offsets, sizes) of the box that a rank has.");
  module.def("_reshard", &transfers, nb::arg("shape").none(), nb::arg("saved").none(), nb::arg("wanted").none(),
             "(source, target, box in the source, box in the target) of each transfer.");
}

}  // namespace safetensors::python
