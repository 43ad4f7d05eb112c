/* The loader of an engine in C: all tensors of a model, in one aligned buffer and in the engine's order.
 *
 * Floats become F32. Of matrices, this rank gets its part of the rows. The program stops cleanly at Ctrl-C.
 *
 * Run:  ./loader PATH RANK WORLD       prints NAME OFFSET BYTES CHECKSUM per tensor; FNV-1a, 32 bits
 */
#include <safetensors/c.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256
#define ALIGNED(number) (((number) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

typedef struct {
  safetensors_tensor tensor;   /* its name and shape belong to the model */
  safetensors_request request; /* what to read of it, and its memory in the buffer */
} weight;

static volatile sig_atomic_t interrupted;
static void interrupt(int number) {
  interrupted = number;
}
static int32_t progress(void* user, uint64_t completed, uint64_t total) {
  if (completed == total) fprintf(stderr, "%s: %llu bytes\n", (const char*)user, (unsigned long long)total);
  return interrupted;
}

/* The engine's order: by name. */
static int by_name(const void* left, const void* right) {
  const safetensors_tensor *a = &((const weight*)left)->tensor, *b = &((const weight*)right)->tensor;
  const int order = memcmp(a->name, b->name, a->name_length < b->name_length ? a->name_length : b->name_length);
  return order != 0 ? order : (a->name_length > b->name_length) - (a->name_length < b->name_length);
}

/* Fills `weights`, sorted, and `*memory`, which contains the buffer. The caller frees it, after an error too. */
static safetensors_status load(const safetensors_model* model, const safetensors_dim* rows, const char* path,
                               weight* weights, uint64_t count, void** memory, safetensors_error* error) {
  uint64_t size = 0, nbytes;
  for (uint64_t i = 0; i < count; ++i) {
    weights[i].tensor = (safetensors_tensor)SAFETENSORS_TENSOR_INIT;
    if (safetensors_model_get_tensor(model, i, &weights[i].tensor, error)) return error->code;
  }
  qsort(weights, (size_t)count, sizeof *weights, by_name);
  for (uint64_t i = 0; i < count; ++i) {
    const safetensors_tensor* tensor = &weights[i].tensor;
    safetensors_request request = SAFETENSORS_REQUEST_INIT;
    if (tensor->rank >= 2) request.slice = rows, request.slice_count = 1;
    if (tensor->dtype == SAFETENSORS_DTYPE_F16 || tensor->dtype == SAFETENSORS_DTYPE_BF16)
      request.cast = SAFETENSORS_DTYPE_F32;
    if (safetensors_model_measure(model, tensor->name, tensor->name_length, &request, NULL, 0, NULL, &nbytes, error))
      return error->code;
    request.destination_size = (size_t)nbytes;
    weights[i].request = request;
    size += ALIGNED(nbytes);
  }
  if (size > SIZE_MAX - ALIGNMENT || !(*memory = malloc((size_t)size + ALIGNMENT)))
    return SAFETENSORS_ERROR_OUT_OF_MEMORY;

  safetensors_plan* plan = NULL;
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  options.progress = progress;
  options.user = (void*)path;
  safetensors_status status = safetensors_plan_create(&plan, error);
  /* The buffer begins inside the memory: C11's aligned_alloc() is not on every system. */
  unsigned char* next = (unsigned char*)ALIGNED((uintptr_t)*memory);
  for (weight* each = weights; each < weights + count && !status; ++each) {
    each->request.destination = next;
    next += ALIGNED(each->request.destination_size);
    status = safetensors_plan_add(plan, model, each->tensor.name, each->tensor.name_length, &each->request, error);
  }
  if (!status) status = safetensors_plan_execute(plan, &options, NULL, 0, error);
  safetensors_plan_free(plan);
  return status;
}

static void print(const weight* each, const unsigned char* buffer) {
  const unsigned char* bytes = each->request.destination;
  uint32_t hash = 2166136261U;
  for (size_t i = 0; i < each->request.destination_size; ++i) hash = (hash ^ bytes[i]) * 16777619U;
  printf("%.*s %zu %zu %u\n", (int)each->tensor.name_length, each->tensor.name, (size_t)(bytes - buffer),
         each->request.destination_size, hash);
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: %s PATH RANK WORLD\n", argv[0]), 2;
  const safetensors_dim rows = SAFETENSORS_DIM_SHARD(atoi(argv[2]), atoi(argv[3]));
  safetensors_model* model = NULL;
  safetensors_model_info info = SAFETENSORS_MODEL_INFO_INIT;
  safetensors_error error = {0};
  void* memory = NULL;
  weight* weights = NULL;
  signal(SIGINT, interrupt);
  safetensors_status status = safetensors_model_open(argv[1], NULL, &model, &error);
  if (!status) status = safetensors_model_get_info(model, &info, &error);
  if (!status && !(weights = calloc((size_t)info.tensor_count + 1, sizeof *weights)))
    status = SAFETENSORS_ERROR_OUT_OF_MEMORY;
  if (!status) status = load(model, &rows, argv[1], weights, info.tensor_count, &memory, &error);
  for (uint64_t i = 0; i < info.tensor_count && !status; ++i) print(&weights[i], weights->request.destination);
  char text[1200] = "";
  if (status) safetensors_error_text(&error, text, sizeof text), fprintf(stderr, "%s\n", text[0] ? text : "no memory");
  free(memory);
  free(weights);
  safetensors_model_free(model);
  return status ? 1 : 0;
}
