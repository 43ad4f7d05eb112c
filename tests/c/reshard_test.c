/* Boxes of a tensor cut over processes, and transfers between two cuts, element by element. */
#include "c/expect.h"

enum { kRows = 7, kColumns = 6, kParts = 4 };

static const uint64_t kShape[2] = {kRows, kColumns};

/* The parts of a tensor on four processes, and their elements. The value of an element is its position. */
struct cut {
  safetensors_box boxes[kParts];
  int elements[kParts][kRows * kColumns];
};

/* The ways to cut: per mesh dimension the dimension of the tensor, or -1 for a replica. */
static const int kPlacements[6][2] = {{0, 0}, {1, 1}, {0, 1}, {1, -1}, {-1, 0}, {-1, -1}};

static safetensors_mesh_dim mesh_dim(uint64_t processes, uint64_t coordinate, int dim) {
  safetensors_mesh_dim made = {0, 0, 0, SAFETENSORS_PLACEMENT_REPLICATE, 0};
  made.processes = processes;
  made.coordinate = coordinate;
  if (dim >= 0) {
    made.dim = (uint64_t)dim;
    made.placement = SAFETENSORS_PLACEMENT_SHARD;
  }
  return made;
}

/* Cuts the tensor over a mesh of four processes in a line, or of 2 x 2. `filled`: the parts have their elements, or
 * else -1. */
static void make_cut(struct cut* cut, int line, const int* placements, int filled) {
  for (uint64_t part = 0; part < kParts; ++part) {
    safetensors_box* box = &cut->boxes[part];
    safetensors_mesh_dim mesh[2];
    mesh[0] = line ? mesh_dim(4, part, placements[0]) : mesh_dim(2, part / 2, placements[0]);
    mesh[1] = mesh_dim(2, part % 2, placements[1]);
    GOOD(safetensors_shard_box(kShape, 2, mesh, line ? 1 : 2, box, &error));
    CHECK(box->rank == 2 && box->begin[2] == 0 && box->size[2] == 0);
    for (uint64_t i = 0; i < box->size[0]; ++i) {
      for (uint64_t j = 0; j < box->size[1]; ++j)
        cut->elements[part][i * box->size[1] + j] =
            filled ? (int)((box->begin[0] + i) * kColumns + box->begin[1] + j) : -1;
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
  const safetensors_box* in_source = &transfer->in_source;
  const safetensors_box* in_target = &transfer->in_target;
  const uint64_t from_width = moving->saved->boxes[transfer->source].size[1];
  const uint64_t to_width = moving->wanted->boxes[transfer->target].size[1];
  CHECK(in_source->size[0] == in_target->size[0] && in_source->size[1] == in_target->size[1]);
  for (uint64_t i = 0; i < in_source->size[0]; ++i) {
    for (uint64_t j = 0; j < in_source->size[1]; ++j) {
      const uint64_t from = (in_source->begin[0] + i) * from_width + in_source->begin[1] + j;
      const uint64_t to = (in_target->begin[0] + i) * to_width + in_target->begin[1] + j;
      CHECK(moving->wanted->elements[transfer->target][to] == -1);
      moving->wanted->elements[transfer->target][to] = moving->saved->elements[transfer->source][from];
      ++moving->moved;
    }
  }
}

static void every_cut_becomes_every_other(void) {
  static struct cut saved;
  static struct cut wanted;
  for (size_t a = 0; a < 12; ++a) {
    for (size_t b = 0; b < 12; ++b) {
      struct moving moving = {&saved, &wanted, 0};
      uint64_t expected = 0;
      make_cut(&saved, a < 6, kPlacements[a % 6], 1);
      make_cut(&wanted, b < 6, kPlacements[b % 6], 0);
      GOOD(safetensors_reshard(kShape, 2, saved.boxes, kParts, wanted.boxes, kParts, move, &moving, &error));
      for (int part = 0; part < kParts; ++part) {
        const safetensors_box* box = &wanted.boxes[part];
        expected += box->size[0] * box->size[1];
        for (uint64_t i = 0; i < box->size[0]; ++i) {
          for (uint64_t j = 0; j < box->size[1]; ++j)
            CHECK(wanted.elements[part][i * box->size[1] + j] ==
                  (int)((box->begin[0] + i) * kColumns + box->begin[1] + j));
        }
      }
      CHECK(moving.moved == expected);
    }
  }
}

static void count_calls(void* user, const safetensors_transfer* transfer) {
  (void)transfer;
  ++*(int*)user;
}

static void arguments_that_are_refused(void) {
  const uint64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  safetensors_mesh_dim rows = mesh_dim(2, 0, 0);
  const safetensors_mesh_dim outside = mesh_dim(2, 2, 0);
  const safetensors_mesh_dim third = mesh_dim(2, 0, 2);
  const safetensors_box scalar = {0, {0}, {0}};
  const safetensors_box empty = {2, {0}, {0}};
  const safetensors_box whole = {2, {0}, {kRows, kColumns}};
  const safetensors_box long_one = {2, {1, 0}, {kRows, kColumns}};
  safetensors_box box = whole;
  int calls = 0;
  FAILS(safetensors_shard_box(kShape, 2, &outside, 1, &box, &error), INVALID_ARGUMENT);
  SAYS("coordinate 2 is outside of dimension 0 of the mesh, which has 2 processes");
  CHECK(box.rank == 0 && box.size[0] == 0);
  FAILS(safetensors_shard_box(kShape, 2, &third, 1, &box, &error), INVALID_ARGUMENT);
  SAYS("placement 0 cuts dimension 2, the tensor has 2 dimensions");
  FAILS(safetensors_shard_box(many, 9, NULL, 0, &box, &error), UNSUPPORTED);
  SAYS("a tensor of 9 dimensions, a box has at most 8");
  FAILS(safetensors_shard_box(NULL, 2, &rows, 1, &box, &error), INVALID_ARGUMENT);
  FAILS(safetensors_shard_box(kShape, 2, NULL, 1, &box, &error), INVALID_ARGUMENT);
  FAILS(safetensors_shard_box(kShape, 2, &rows, 1, NULL, &error), INVALID_ARGUMENT);
  rows.reserved = 1;
  FAILS(safetensors_shard_box(kShape, 2, &rows, 1, &box, &error), UNSUPPORTED);
  rows.placement = 2;
  FAILS(safetensors_shard_box(kShape, 2, &rows, 1, &box, &error), INVALID_ARGUMENT);
  SAYS("unknown placement 2");
  GOOD(safetensors_shard_box(NULL, 0, NULL, 0, &box, &error)); /* a scalar */

  FAILS(safetensors_reshard(kShape, 2, &empty, 1, &whole, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  SAYS("wanted box 0 [0:7, 0:6] is not in the saved boxes: they have 0 of its 42 elements");
  FAILS(safetensors_reshard(kShape, 2, &whole, 1, &scalar, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  SAYS("wanted box 0 has 0 dimensions, the tensor has 2");
  FAILS(safetensors_reshard(kShape, 2, &long_one, 1, &whole, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  SAYS("saved box 0 has 7 indices from 1 on in dimension 0, the tensor has 7");
  FAILS(safetensors_reshard(many, 9, &whole, 1, &whole, 1, count_calls, &calls, &error), UNSUPPORTED);
  FAILS(safetensors_reshard(kShape, 2, NULL, 1, &whole, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  FAILS(safetensors_reshard(kShape, 2, &whole, 1, NULL, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  FAILS(safetensors_reshard(NULL, 2, &whole, 1, &whole, 1, count_calls, &calls, &error), INVALID_ARGUMENT);
  FAILS(safetensors_reshard(kShape, 2, &whole, 1, &whole, 1, NULL, &calls, &error), INVALID_ARGUMENT);
  CHECK(calls == 0);
  GOOD(safetensors_reshard(NULL, 0, &scalar, 1, &scalar, 1, count_calls, &calls, &error));
  CHECK(calls == 1);
}

int main(void) {
  every_cut_becomes_every_other();
  arguments_that_are_refused();
  return finish("c reshard");
}
