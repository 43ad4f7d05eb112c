/* Boxes of a tensor cut over processes, and transfers between two cuts, element by element. */
#include "c/expect.h"

enum { kRows = 7, kColumns = 6, kParts = 4 };

static const uint64_t kShape[2] = {kRows, kColumns};

/* The parts of a tensor on four processes, and their elements. The value of an element is its position. */
struct cut {
  uint64_t begins[kParts][2];
  uint64_t sizes[kParts][2];
  safetensors_box boxes[kParts];
  int elements[kParts][kRows * kColumns];
};

static safetensors_placement shard(uint64_t dim) {
  const safetensors_placement placement = {dim, SAFETENSORS_PLACEMENT_SHARD, 0};
  return placement;
}

static safetensors_placement replicate(void) {
  const safetensors_placement placement = {0, SAFETENSORS_PLACEMENT_REPLICATE, 0};
  return placement;
}

/* Cuts the tensor over a mesh of four processes. `filled`: the parts have their elements, or else -1. */
static void make_cut(struct cut* cut, const uint64_t* mesh, size_t mesh_rank, const safetensors_placement* placements,
                     int filled) {
  for (uint64_t part = 0; part < kParts; ++part) {
    const uint64_t coordinate[2] = {mesh_rank == 1 ? part : part / mesh[1], mesh_rank == 1 ? 0 : part % mesh[1]};
    uint64_t* begin = cut->begins[part];
    uint64_t* size = cut->sizes[part];
    GOOD(safetensors_shard_box(kShape, 2, mesh, coordinate, placements, mesh_rank, begin, size, &error));
    cut->boxes[part].begin = begin;
    cut->boxes[part].size = size;
    for (uint64_t i = 0; i < size[0]; ++i) {
      for (uint64_t j = 0; j < size[1]; ++j)
        cut->elements[part][i * size[1] + j] = filled ? (int)((begin[0] + i) * kColumns + begin[1] + j) : -1;
    }
  }
}

struct moving {
  const struct cut* saved;
  struct cut* wanted;
  uint64_t moved;
};

static void move(void* user, const safetensors_transfer* transfer) {
  struct moving* moving = user;
  const uint64_t from_width = moving->saved->sizes[transfer->source][1];
  const uint64_t to_width = moving->wanted->sizes[transfer->target][1];
  for (uint64_t i = 0; i < transfer->size[0]; ++i) {
    for (uint64_t j = 0; j < transfer->size[1]; ++j) {
      const uint64_t from = (transfer->source_begin[0] + i) * from_width + transfer->source_begin[1] + j;
      const uint64_t to = (transfer->target_begin[0] + i) * to_width + transfer->target_begin[1] + j;
      CHECK(moving->wanted->elements[transfer->target][to] == -1);
      moving->wanted->elements[transfer->target][to] = moving->saved->elements[transfer->source][from];
      ++moving->moved;
    }
  }
}

static void every_cut_becomes_every_other(void) {
  const uint64_t line[1] = {4};
  const uint64_t square[2] = {2, 2};
  const safetensors_placement placements[6][2] = {{shard(0), shard(0)},    {shard(1), shard(1)},
                                                  {shard(0), shard(1)},    {shard(1), replicate()},
                                                  {replicate(), shard(0)}, {replicate(), replicate()}};
  static struct cut saved;
  static struct cut wanted;
  for (size_t a = 0; a < 12; ++a) {
    for (size_t b = 0; b < 12; ++b) {
      struct moving moving = {&saved, &wanted, 0};
      uint64_t expected = 0;
      make_cut(&saved, a < 6 ? line : square, a < 6 ? 1 : 2, placements[a % 6], 1);
      make_cut(&wanted, b < 6 ? line : square, b < 6 ? 1 : 2, placements[b % 6], 0);
      GOOD(safetensors_reshard(kShape, 2, saved.boxes, kParts, wanted.boxes, kParts, move, &moving, &error));
      for (int part = 0; part < kParts; ++part) {
        const uint64_t* begin = wanted.begins[part];
        const uint64_t* size = wanted.sizes[part];
        expected += size[0] * size[1];
        for (uint64_t i = 0; i < size[0]; ++i) {
          for (uint64_t j = 0; j < size[1]; ++j)
            CHECK(wanted.elements[part][i * size[1] + j] == (int)((begin[0] + i) * kColumns + begin[1] + j));
        }
      }
      CHECK(moving.moved == expected);
    }
  }
}

static void boxes_as_slices(void) {
  const uint64_t begin[2] = {2, 1};
  const uint64_t size[2] = {3, 4};
  const uint64_t large[2] = {UINT64_C(1) << 63, 1};
  safetensors_slice* slice = NULL;
  safetensors_resolved_slice* resolved = NULL;
  uint64_t shape[2] = {0, 0};
  size_t rank = 0;
  GOOD(safetensors_slice_box(begin, size, 2, &slice, &error));
  GOOD(safetensors_slice_resolve(slice, SAFETENSORS_DTYPE_U8, kShape, 2, &resolved, &error));
  GOOD(safetensors_resolved_slice_shape(resolved, shape, 2, &rank, &error));
  CHECK(rank == 2 && shape[0] == 3 && shape[1] == 4);
  safetensors_resolved_slice_free(resolved);
  safetensors_slice_free(slice);
  FAILS(safetensors_slice_box(large, size, 2, &slice, &error), INVALID_ARGUMENT);
  SAYS("dimension 0 of the box has 3 indices from 9223372036854775808 on, expected indices below 2^63");
  CHECK(slice == NULL);
  FAILS(safetensors_slice_box(begin, large, 2, &slice, &error), INVALID_ARGUMENT);
  FAILS(safetensors_slice_box(NULL, size, 2, &slice, &error), INVALID_ARGUMENT);
  FAILS(safetensors_slice_box(begin, NULL, 2, &slice, &error), INVALID_ARGUMENT);
  FAILS(safetensors_slice_box(begin, size, 2, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_slice_box(NULL, NULL, 0, &slice, &error)); /* a scalar */
  safetensors_slice_free(slice);
}

static void count_calls(void* user, const safetensors_transfer* transfer) {
  (void)transfer;
  ++*(int*)user;
}

static void arguments_that_are_refused(void) {
  const uint64_t mesh[1] = {2};
  const uint64_t first[1] = {0};
  const uint64_t outside[1] = {2};
  const safetensors_placement rows = shard(0);
  const safetensors_placement third = shard(2);
  const safetensors_placement unknown = {0, 2, 0};
  const safetensors_placement reserved = {0, SAFETENSORS_PLACEMENT_SHARD, 1};
  const uint64_t zeros[2] = {0, 0};
  const safetensors_box whole = {zeros, kShape};
  const safetensors_box half = {zeros, zeros};
  const safetensors_box none = {NULL, kShape};
  uint64_t begin[2];
  uint64_t size[2];
  int calls = 0;
  FAILS(safetensors_shard_box(kShape, 2, mesh, outside, &rows, 1, begin, size, &error), INVALID_ARGUMENT);
  SAYS("coordinate 2 is outside of dimension 0 of the mesh, which has 2 processes");
  FAILS(safetensors_shard_box(kShape, 2, mesh, first, &third, 1, begin, size, &error), INVALID_ARGUMENT);
  SAYS("placement 0 cuts dimension 2, the tensor has 2 dimensions");
  FAILS(safetensors_shard_box(kShape, 2, mesh, first, &unknown, 1, begin, size, &error), INVALID_ARGUMENT);
  SAYS("unknown kind 2 of a placement");
  FAILS(safetensors_shard_box(kShape, 2, mesh, first, &reserved, 1, begin, size, &error), UNSUPPORTED);
  FAILS(safetensors_shard_box(NULL, 2, mesh, first, &rows, 1, begin, size, &error), INVALID_ARGUMENT);
  FAILS(safetensors_shard_box(kShape, 2, NULL, first, &rows, 1, begin, size, &error), INVALID_ARGUMENT);
  FAILS(safetensors_shard_box(kShape, 2, mesh, NULL, &rows, 1, begin, size, &error), INVALID_ARGUMENT);
  FAILS(safetensors_shard_box(kShape, 2, mesh, first, NULL, 1, begin, size, &error), INVALID_ARGUMENT);
  FAILS(safetensors_shard_box(kShape, 2, mesh, first, &rows, 1, NULL, size, &error), INVALID_ARGUMENT);
  FAILS(safetensors_shard_box(kShape, 2, mesh, first, &rows, 1, begin, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_shard_box(NULL, 0, NULL, NULL, NULL, 0, NULL, NULL, &error));

  FAILS(safetensors_reshard(kShape, 2, &half, 1, &whole, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  SAYS("wanted box 0 [0:7, 0:6] is not in the saved boxes: they have 0 of its 42 elements");
  FAILS(safetensors_reshard(kShape, 2, &whole, 1, &none, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  SAYS("wanted box 0: argument begin is NULL, its length 2");
  FAILS(safetensors_reshard(kShape, 2, NULL, 1, &whole, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  FAILS(safetensors_reshard(kShape, 2, &whole, 1, NULL, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  FAILS(safetensors_reshard(NULL, 2, &whole, 1, &whole, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  FAILS(safetensors_reshard(kShape, 2, &whole, 1, &whole, 1, NULL, &calls, &error), INVALID_ARGUMENT);
  CHECK(calls == 0);
  GOOD(safetensors_reshard(NULL, 0, &none, 1, &none, 1, count_calls, &calls, &error)); /* a scalar */
  CHECK(calls == 1);
}

int main(void) {
  every_cut_becomes_every_other();
  boxes_as_slices();
  arguments_that_are_refused();
  return finish("c reshard");
}
