// Windows only: a process that is killed while it saves a model, a file of more than 4 GiB, and names beyond ASCII.
//
// The killed process is this program, with the folder of the model as its argument.
#include <gtest/gtest.h>
#include <safetensors/safetensors.h>

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "support/io_support.h"

namespace safetensors::test {
namespace {

constexpr std::size_t kBytes = 1 << 20;  // of a tensor

// Saves a model of three files, in which every byte is the same letter.
Status save_letters(const std::string& folder, char letter) {
  const std::string bytes(kBytes, letter);
  std::vector<NamedTensor> tensors;
  for (const char* const name : {"a", "b", "c"})
    tensors.emplace_back(TensorData{name, Dtype::U8, Shape{kBytes}, bytes_of(bytes)});
  return save_checkpoint(folder, tensors, CheckpointLayoutOptions{.max_shard_size = kBytes},
                         CheckpointWriteOptions{.write = {.durability = Durability::none}});
}

// The letters of the three tensors, each of which has one letter only. Else the error.
std::string letters(const std::string& folder) {
  const Result<Checkpoint> model = Checkpoint::open(folder);
  if (!model) return model.error().to_string();
  std::string letters;
  for (const Tensor& tensor : model->tensors()) {
    const Result<Array> array = tensor.read();
    if (!array) return array.error().to_string();
    const std::string text = data_of(*array);
    if (text.find_first_not_of(text[0]) != std::string::npos) return "mixed bytes";
    letters += text[0];
  }
  return letters;
}

class Child {
 public:
  explicit Child(const std::string& folder) {
    wchar_t program[4096];
    (void)::GetModuleFileNameW(nullptr, program, 4096);
    std::wstring command = L"\"" + std::wstring(program) + L"\" \"" + std::filesystem::path(folder).wstring() + L"\"";
    STARTUPINFOW start{};
    start.cb = sizeof start;
    EXPECT_TRUE(
        ::CreateProcessW(program, command.data(), nullptr, nullptr, FALSE, 0, nullptr, nullptr, &start, &made_));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    (void)::TerminateProcess(made_.hProcess, 1);
    (void)::WaitForSingleObject(made_.hProcess, INFINITE);
    (void)::CloseHandle(made_.hThread);
    (void)::CloseHandle(made_.hProcess);
  }

 private:
  PROCESS_INFORMATION made_{};
};

TEST(KilledSave, LeavesOneModel) {
  const TemporaryDirectory directory;
  const std::string folder = directory / "model";
  ASSERT_TRUE(succeeds(save_letters(folder, 'a')));
  for (DWORD i = 0; i < 12; ++i) {
    {
      const Child child(folder);
      ::Sleep(150 + i * 37);  // any moment is good
    }
    const std::string found = letters(folder);
    ASSERT_EQ(found.size(), 3u) << found;
    EXPECT_EQ(found.find_first_not_of(found[0]), std::string::npos) << found;
  }
  // The next save removes the files of the killed processes, and takes the lock that they held.
  ASSERT_TRUE(succeeds(save_letters(folder, 'z')));
  EXPECT_EQ(letters(folder), "zzz");
  std::size_t shards = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".safetensors-")) << entry.path();
    shards += entry.path().extension() == ".safetensors" ? 1 : 0;
  }
  EXPECT_EQ(shards, 3u);
}

TEST(LargeFile, IsReadBeyondFourGigabytes) {
  const TemporaryDirectory directory;
  const std::string path = directory / "large.safetensors";
  constexpr std::uint64_t kSize = (std::uint64_t{5} << 30) + 3;
  std::string text = R"({"t":{"dtype":"U8","shape":[)" + std::to_string(kSize) + R"(],"data_offsets":[0,)" +
                     std::to_string(kSize) + "]}}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string head(8, '\0');
  for (int i = 0; i < 8; ++i) head[static_cast<std::size_t>(i)] = static_cast<char>(text.size() >> 8 * i);
  put(path, head + text);
  std::filesystem::resize_file(path, 8 + text.size() + kSize);
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out).seekp(-4, std::ios::end).write("last", 4);
  for (const Access access : {Access::read, Access::map}) {
    const Result<File> file = File::open(path, {.access = access});
    ASSERT_TRUE(succeeds(file));
    const Result<Array> end = file->tensor("t").value().read(std::to_string(kSize - 5) + ":");
    ASSERT_TRUE(succeeds(end));
    EXPECT_EQ(data_of(*end), std::string_view("\0last", 5));
  }
}

TEST(Names, BeyondAsciiAreKept) {
  const TemporaryDirectory directory;
  const std::filesystem::path folder = std::filesystem::path(directory.path()) / L"M\u00f6del \U0001F600";
  std::filesystem::create_directory(folder);
  const std::string bytes = "12";
  ASSERT_TRUE(succeeds(save(folder / L"\u00fc.safetensors", {TensorData{"t", Dtype::U8, Shape{2}, bytes_of(bytes)}})));
  const std::string utf8 = directory /
                           "M\xC3\xB6"
                           "del \xF0\x9F\x98\x80/\xC3\xBC.safetensors";
  EXPECT_EQ(data_of(File::open(utf8).value().tensor("t").value().read().value()), bytes);
  const std::string other = directory /
                            "M\xC3\xB6"
                            "del \xF0\x9F\x98\x80\\\xC3\xBC.safetensors";
  EXPECT_TRUE(succeeds(File::open(other)));
}

}  // namespace
}  // namespace safetensors::test

int main(int argc, char** argv) {
  if (argc == 2 && argv[1][0] != '-') {
    for (char letter = 'a';; letter = letter == 'y' ? 'a' : static_cast<char>(letter + 1))
      if (!safetensors::test::save_letters(argv[1], letter)) return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
