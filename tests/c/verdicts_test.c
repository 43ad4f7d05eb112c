/* The conformance cases through the C interface: each file has the verdict of verdicts.tsv. */
#include "c/expect.h"

int main(void) {
  char line[4096];
  FILE* table = fopen(SAFETENSORS_TEST_DATA "/conformance/verdicts.tsv", "r");
  CHECK(table != NULL && fgets(line, sizeof line, table) != NULL); /* the names of the columns */
  while (table && fgets(line, sizeof line, table)) {
    const char* const name = strtok(line, "\t");
    const char* const verdict = strtok(NULL, "\t\n");
    char path[4096];
    safetensors_model* model = NULL;
    if (!name || !verdict) continue;
    snprintf(path, sizeof path, "%s/conformance/cases/%s.safetensors", SAFETENSORS_TEST_DATA, name);
    const char* const found = safetensors_status_name(safetensors_model_open(path, NULL, &model, &error));
    check(strcmp(found, verdict) == 0, name, __FILE__, __LINE__);
    CHECK((model == NULL) == (error.code != SAFETENSORS_OK));
    safetensors_model_free(model);
  }
  if (table) fclose(table);
  CHECK(checks > 100);
  return finish("verdicts");
}
