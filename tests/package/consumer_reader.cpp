// Uses only safetensors::reader: makes a file by hand, opens it, reads a slice, executes a plan, and learns that this
// part of the library has no driver for devices. Packages compile it as C++17 without exceptions and RTTI.
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace st = safetensors;

static int fail(const st::Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

static bool make_file(const char* path) {
  std::string text = R"({"weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  text.resize(64, ' ');
  std::string bytes("\x40\0\0\0\0\0\0\0", 8);
  bytes += text;
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}) {
    char element[sizeof value];
    std::memcpy(element, &value, sizeof value);
    bytes.append(element, sizeof value);
  }
  std::FILE* const file = std::fopen(path, "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && written;
}

int main(int argc, char** argv) {
  if (argc != 2 || !make_file(argv[1])) return 2;
  const st::Result<st::File> file = st::File::open(argv[1]);
  if (!file) return fail(file.error());
  const st::Result<st::Tensor> weight = file->tensor("weight");
  if (!weight) return fail(weight.error());
  const st::Result<std::vector<float>> column = weight->read_as<float>(":,1");
  if (!column) return fail(column.error());
  if (column->size() != 2 || (*column)[0] != 2 || (*column)[1] != 5) return 1;

  st::ReadPlan plan;
  if (st::Status status = plan.add(*weight); !status) return fail(status.error());
  const st::Result<st::ReadResult> read = plan.execute();
  if (!read) return fail(read.error());
  if (read->arrays[0].nbytes() != 24) return 1;

  st::ReadPlan to_device;
  st::Destination destination;
  destination.bytes = {reinterpret_cast<std::byte*>(4096), 24};
  destination.device = 0;
  if (st::Status status = to_device.add(*weight, {}, destination); !status) return fail(status.error());
  const st::Result<st::ReadResult> refused = to_device.execute();
  if (refused || refused.error().code != st::Errc::unsupported) return 1;
  return refused.error().message.find("link safetensors::safetensors instead") != std::string::npos ? 0 : 1;
}
