#pragma once

#include <safetensors/safetensors.h>

bool has_tensor(const char* path, const char* name);
