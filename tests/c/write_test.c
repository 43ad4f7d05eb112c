/* Writing in C: files and models, whole and in pieces, and edits of metadata. */
#define _POSIX_C_SOURCE 200809L

#include "c/files.h"

static int32_t stop(void* user, uint64_t completed, uint64_t total) {
  ++*(int*)user;
  return completed <= total;
}

static void saving(void) {
  safetensors_tensor_data tensors[3];
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  safetensors_array* array = NULL;
  safetensors_model* model = NULL;
  int called = 0;
  make_tensors(tensors);
  write_file(path, 0);
  model = open_model(path);
  check_weight(model);
  safetensors_model_free(model);
  options.new_only = 1;
  FAILS(safetensors_save(path, tensors, 3, &options, &error), REPLACE_FAILED);
  CHECK(error.os_error == 17 && strcmp(error.path, path) == 0);
  options.new_only = 0;
  options.progress = stop;
  options.user = &called;
  FAILS(safetensors_save(path, tensors, 3, &options, &error), CANCELLED);
  CHECK(called > 0);
  tensors[1].size = 15;
  FAILS(safetensors_save(path, tensors, 3, NULL, &error), DATA_LENGTH);
  CHECK(strstr(error.message, "`steps`") != NULL);
  tensors[1].dtype = 99;
  FAILS(safetensors_save(path, tensors, 3, NULL, &error), INVALID_ARGUMENT);
  SAYS("tensor 1: unknown dtype 99");
  make_tensors(tensors);
  tensors[2].name = "weight";
  FAILS(safetensors_save(path, tensors, 3, NULL, &error), DUPLICATE_NAME);
  options.durability = 3;
  FAILS(safetensors_save(path, tensors, 1, &options, &error), INVALID_ARGUMENT);
  FAILS(safetensors_save(in_directory("none/a"), tensors, 1, NULL, &error), OPEN_FAILED);
  GOOD(safetensors_serialize(tensors, 2, NULL, &array, &error));
  const safetensors_array_info info = look(array);
  CHECK(info.dtype == SAFETENSORS_DTYPE_U8 && info.rank == 1 && info.shape[0] == info.nbytes && info.mutable_data);
  GOOD(safetensors_model_from_memory(info.data, info.nbytes, NULL, NULL, NULL, &model, &error));
  check_weight(model);
  safetensors_model_free(model);
  safetensors_array_free(array);
  options.durability = 0;
  options.max_shard_size = 1;
  FAILS(safetensors_serialize(tensors, 2, &options, &array, &error), INVALID_ARGUMENT);
  options.max_shard_size = 0;
  options.data_alignment = 3;
  FAILS(safetensors_serialize(tensors, 2, &options, &array, &error), INVALID_ALIGNMENT);
}

static void pieces(uint64_t max_shard_size, const char* to) {
  safetensors_tensor_data tensors[3];
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  safetensors_writer* writer = NULL;
  safetensors_model* model = open_model(path);
  const safetensors_dim last = SAFETENSORS_DIM_INDEX(1);
  make_tensors(tensors);
  for (int i = 0; i < 3; ++i) tensors[i].data = NULL, tensors[i].size = 99; /* ignored */
  options.max_shard_size = max_shard_size;
  options.durability = SAFETENSORS_DURABILITY_NONE;
  options.metadata = kMetadata;
  options.metadata_count = 2;
  GOOD(safetensors_writer_create(to, tensors, 3, &options, &writer, &error));
  GOOD(safetensors_writer_write(writer, TEXT("weight"), 0, kWeight, 12, &error));
  FAILS(safetensors_writer_write(writer, TEXT("weight"), 8, kWeight, 4, &error), OVERLAPPING_WRITE);
  FAILS(safetensors_writer_write(writer, TEXT("weight"), 20, kWeight, 8, &error), BUFFER_SIZE);
  FAILS(safetensors_writer_write(writer, TEXT("none"), 0, kWeight, 8, &error), NOT_FOUND);
  FAILS(safetensors_writer_commit(writer, &error), INCOMPLETE_WRITE);
  FAILS(safetensors_writer_write_slice(writer, TEXT("weight"), &last, 1, kWeight, 8, &error), DATA_LENGTH);
  GOOD(safetensors_writer_write_slice(writer, TEXT("weight"), &last, 1, kWeight + 3, 12, &error));
  FAILS(safetensors_writer_copy(writer, TEXT("steps"), model, TEXT("none"), &error), NOT_FOUND);
  FAILS(safetensors_writer_copy(writer, TEXT("steps"), model, TEXT("weight"), &error), DTYPE_MISMATCH);
  GOOD(safetensors_writer_copy(writer, TEXT("steps"), model, "steps", NUL, &error));
  GOOD(safetensors_writer_copy(writer, TEXT("byte"), model, "byte", NUL, &error));
  GOOD(safetensors_writer_commit(writer, &error));
  FAILS(safetensors_writer_commit(writer, &error), WRITER_CLOSED);
  safetensors_writer_free(writer);
  safetensors_model_free(model);
  model = open_model(to);
  CHECK(count_of(model) == 3);
  check_weight(model);
  safetensors_metadata pair;
  GOOD(safetensors_model_find_metadata(model, 0, TEXT("format"), &pair, &error));
  safetensors_model_free(model);
  GOOD(safetensors_writer_create(to, tensors, 3, &options, &writer, &error));
  safetensors_writer_free(writer); /* removes what it wrote */
  model = open_model(to);
  check_weight(model);
  safetensors_model_free(model);
}

static void edits(void) {
  const safetensors_metadata changes[] = {{TEXT("format"), TEXT("np")}, {TEXT("a"), NULL, 0}};
  safetensors_metadata long_one = {TEXT("b"), NULL, 5000};
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  static char text[5000];
  safetensors_metadata pair;
  memset(text, 'x', sizeof text);
  long_one.value = text;
  options.edit_in_place = 1;
  for (int in_place = 0; in_place < 2; ++in_place) {
    write_file(path, 0);
    GOOD(safetensors_edit_metadata(path, changes, 2, in_place ? &options : NULL, &error));
    safetensors_model* model = open_model(path);
    GOOD(safetensors_model_find_metadata(model, 0, TEXT("format"), &pair, &error));
    CHECK(same(pair.value, pair.value_length, "np"));
    FAILS(safetensors_model_find_metadata(model, 0, TEXT("a"), &pair, &error), NOT_FOUND);
    check_weight(model);
    safetensors_model_free(model);
  }
  FAILS(safetensors_edit_metadata(path, &long_one, 1, &options, &error), HEADER_DOES_NOT_FIT);
  CHECK(strcmp(error.path, path) == 0);
}

static void remove_model(const char* folder) {
  safetensors_model* model = open_model(folder);
  safetensors_file file = SAFETENSORS_FILE_INIT;
  for (uint64_t i = 0; i < 3; ++i) {
    GOOD(safetensors_model_get_file(model, i, &file, &error));
    CHECK(unlink(file.path) == 0);
  }
  safetensors_model_free(model);
}

int main(void) {
  char file[160], folder[160], index[200];
  if (!make_directory()) return 1;
  saving();
  snprintf(file, sizeof file, "%s/b.safetensors", directory);
  pieces(0, file);
  snprintf(folder, sizeof folder, "%s/model", directory);
  pieces(1, folder);
  edits();
  remove_model(folder);
  snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
  CHECK(unlink(index) == 0 && rmdir(folder) == 0);
  CHECK(unlink(path) == 0 && unlink(file) == 0 && rmdir(directory) == 0);
  return finish("write");
}
