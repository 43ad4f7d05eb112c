// Editing metadata: in a new file that replaces the old, and in place.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <optional>

#include "os/regular_file.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

using Names = std::vector<std::string>;

class EditMetadata : public testing::Test {
 protected:
  const TemporaryDirectory directory;
  const std::string path = directory / "model";
  const std::vector<std::uint64_t> shape{4};

  std::string expected(const std::optional<MetadataPairs>& metadata, const LayoutOptions& options = {}) const {
    const TensorData tensors[] = {{.name = "a", .dtype = Dtype::U8, .shape = shape, .bytes = bytes_of("abcd")},
                                  {.name = "b", .dtype = Dtype::F32, .shape = {}, .bytes = bytes_of("1234")}};
    return data_of(serialize(tensors, metadata, options).value());
  }
};

TEST_F(EditMetadata, WritesFileLikeSerialize) {
  put(path, expected(std::nullopt));
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"license", "apache-2.0"}, {"a\"", "\n"}})));
  EXPECT_EQ(contents(path), expected(MetadataPairs{{"a\"", "\n"}, {"license", "apache-2.0"}}));
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"license", "mit"}, {"draft", std::nullopt}, {"a\"", std::nullopt}})));
  EXPECT_EQ(contents(path), expected(MetadataPairs{{"license", "mit"}}));
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(EditMetadata, RefusesTextThatIsNotUtf8) {
  put(path, expected(std::nullopt));
  for (const bool in_place : {false, true}) {
    const EditOptions options{.in_place = in_place};
    const Error error = error_of(edit_metadata(path, {{"k\xff", "v"}}, options));
    EXPECT_EQ(error.code, Errc::invalid_utf8);
    EXPECT_EQ(error.message, "metadata key `k\\xff` is not valid UTF-8 at byte 1");
    EXPECT_EQ(error_of(edit_metadata(path, {{"k", "ab\xff"}}, options)).message,
              "metadata value of `k` is not valid UTF-8 at byte 2");
  }
  EXPECT_EQ(contents(path), expected(std::nullopt));
}

TEST_F(EditMetadata, LeavesEmptyObjectAfterLastKey) {
  put(path, expected(MetadataPairs{{"k", "v"}}));
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", std::nullopt}})));
  EXPECT_EQ(contents(path), expected(MetadataPairs{}));
}

TEST_F(EditMetadata, AddsNoMetadataOnRemoval) {
  put(path, expected(std::nullopt));
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", std::nullopt}})));
  EXPECT_EQ(contents(path), expected(std::nullopt));
}

TEST_F(EditMetadata, AppliesLastEditOfKey) {
  put(path, expected(std::nullopt));
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", "1"}, {"k", std::nullopt}, {"k", "2"}})));
  EXPECT_EQ(contents(path), expected(MetadataPairs{{"k", "2"}}));
}

TEST_F(EditMetadata, LeavesSlackForEditInPlace) {
  put(path, expected(std::nullopt));
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", "v"}}, {.metadata_slack = 100})));
  EXPECT_EQ(contents(path), expected(MetadataPairs{{"k", "v"}}, {.metadata_slack = 100}));
  const ino_t inode = inode_of(path);
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", "a longer value"}}, {.in_place = true})));
  EXPECT_EQ(inode_of(path), inode);
  const File file = File::open(path).value();
  EXPECT_EQ(file.header().metadata().find("k"), "a longer value");
}

TEST_F(EditMetadata, KeepsLengthAndDataInPlace) {
  const std::string before = expected(MetadataPairs{{"k", "a longer value"}});
  put(path, before);
  const ino_t inode = inode_of(path);
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", "v"}}, {.in_place = true})));
  const std::string after = contents(path);
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(after.substr(0, 8), before.substr(0, 8));
  EXPECT_EQ(after.substr(after.size() - 8), before.substr(before.size() - 8));
  EXPECT_EQ(inode_of(path), inode);
  const File file = File::open(path).value();
  EXPECT_EQ(file.header().metadata().find("k"), "v");
  EXPECT_EQ(data_of(file.tensor("a").value().read().value()), "abcd");
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(EditMetadata, RefusesTooLongEditInPlace) {
  put(path, expected(std::nullopt));
  const std::string value(200, 'v');
  const Error error = error_of(edit_metadata(path, {{"k", value}}, {.in_place = true}));
  EXPECT_EQ(error.code, Errc::header_does_not_fit);
  EXPECT_EQ(error.path, path);
  // `"__metadata__":{"k":"VALUE"},` joins the unpadded text.
  const std::string before = expected(std::nullopt);
  const std::size_t unpadded = before.find("}} ") + 2 - 8;
  EXPECT_EQ(error.message, "new header needs " + std::to_string(unpadded + 24 + 200) + " bytes, the old one has " +
                               std::to_string(before.size() - 16) + " (write a new file instead)");
  EXPECT_EQ(contents(path), expected(std::nullopt));
}

// Another program's order, spaces and odd offsets of tensors stay where they are.
TEST_F(EditMetadata, KeepsOrderAndOffsets) {
  const std::string header =
      R"({ "b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}, "a":{"dtype":"U16","shape":[1],"data_offsets":[3,5]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  put(path, bytes + header + "bbbaa");
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", "v"}})));
  const File file = File::open(path).value();
  EXPECT_EQ(file.header().data_start() % 8, 0u);
  EXPECT_EQ(file.header().find("b")->begin, 0u);
  EXPECT_EQ(file.header().find("a")->begin, 3u);
  EXPECT_EQ(data_of(file.tensor("b").value().read().value()), "bbb");
  EXPECT_EQ(data_of(file.tensor("a").value().read().value()), "aa");
  EXPECT_EQ(file.header().metadata().find("k"), "v");
}

TEST_F(EditMetadata, EditsHeaderOfAnyLengthInPlace) {
  const std::string header =
      R"({"__metadata__":{"k":"old value"},   "b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  ASSERT_NE((8 + header.size()) % 8, 0u);
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  put(path, bytes + header + "bbb");
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", "new"}}, {.in_place = true})));
  const File file = File::open(path).value();
  EXPECT_EQ(file.header().header_bytes(), header.size());
  EXPECT_EQ(file.header().metadata().find("k"), "new");
  EXPECT_EQ(data_of(file.tensor("b").value().read().value()), "bbb");
}

TEST_F(EditMetadata, RefusesTooMuchSlack) {
  put(path, expected(std::nullopt));
  for (const std::uint64_t slack : {std::uint64_t{100'000'000}, ~std::uint64_t{0}}) {
    const Error error = error_of(edit_metadata(path, {{"k", "v"}}, {.metadata_slack = slack}));
    EXPECT_EQ(error.code, Errc::header_too_large);
    EXPECT_EQ(error.path, path);
  }
  EXPECT_TRUE(contents(path) == expected(std::nullopt));
}

TEST_F(EditMetadata, RefusesMissingOrInvalidFile) {
  EXPECT_EQ(error_of(edit_metadata(path, {{"k", "v"}})).os_error, ENOENT);
  put(path, "short");
  const Error error = error_of(edit_metadata(path, {{"k", "v"}}));
  EXPECT_EQ(error.code, Errc::header_too_small);
  EXPECT_EQ(error.path, path);
  EXPECT_EQ(contents(path), "short");
  EXPECT_EQ(error_of(edit_metadata(directory.path(), {{"k", "v"}})).code, Errc::not_regular_file);
}

TEST_F(EditMetadata, RemovesLeadingWhiteSpace) {
  std::string bytes(8, '\0');
  bytes[0] = 10;
  put(path, bytes + "  {}      ");
  EXPECT_EQ(error_of(edit_metadata(path, {{"k", "v"}})).code, Errc::json_leading_whitespace);
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", "v"}}, {.parse = {.allow_leading_whitespace = true}})));
  EXPECT_EQ(contents(path), data_of(serialize({}, MetadataPairs{{"k", "v"}}).value()));
}

TEST_F(EditMetadata, FollowsLinkAndKeepsMode) {
  put(directory / "blob", expected(std::nullopt));
  ASSERT_EQ(::chmod((directory / "blob").c_str(), 0640), 0);
  ASSERT_EQ(::symlink("blob", path.c_str()), 0);
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", "v"}})));
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_EQ(contents(directory / "blob"), expected(MetadataPairs{{"k", "v"}}));
  EXPECT_EQ(mode_of(directory / "blob"), mode_t{0640});
}

// The path is asked again before the new file replaces the old one. A file that another program changes stays changed.
TEST_F(EditMetadata, ReportsLostPath) {
  const std::string folder = directory / "folder", model = folder + "/model";
  const auto lose = [&](const std::function<bool()>& how, Errc code, int number) {
    if (::mkdir(folder.c_str(), 0700) != 0) return false;
    put(model, expected(std::nullopt));
    EditOptions options;
    options.write.progress = [&](std::uint64_t done, std::uint64_t total) { return done != total || how(); };
    const Error error = error_of(edit_metadata(model, {{"k", "v"}}, options));
    ::chmod(folder.c_str(), 0700);
    std::filesystem::remove_all(folder);
    return error.path == model && error.code == code && error.os_error == number;
  };
  const auto remove = [&] { return ::unlink(model.c_str()) == 0; };
  EXPECT_TRUE(lose(remove, Errc::file_changed, 0));
  EXPECT_TRUE(lose([&] { return put(model, "changed"), true; }, Errc::file_changed, 0));
  EXPECT_TRUE(lose([&] { return remove() && ::mkdir(model.c_str(), 0700) == 0; }, Errc::file_changed, 0));
  EXPECT_TRUE(lose([&] { return remove() && ::symlink("model", model.c_str()) == 0; }, Errc::open_failed, ELOOP));
  // Root may search any folder, so the question is put as somebody else.
  ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::setuid(65534) != 0) return false;
              return lose([&] { return ::chmod(folder.c_str(), 0) == 0; }, Errc::open_failed, EACCES);
            }),
            0);
}

// However few descriptors there are, the error is that there are no more: nothing was changed.
TEST_F(EditMetadata, ReportsTooFewDescriptors) {
  put(path, expected(std::nullopt));
  for (const bool in_place : {false, true}) {
    const auto edits_at_last = [&] {
      for (rlim_t most = 3; most < 64; ++most) {
        const rlimit limit{most, 64};
        if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
        const Status status = edit_metadata(path, {{"k", ""}}, {.in_place = in_place});
        if (status) return true;
        if (status.error().os_error == EMFILE && status.error().path == path) continue;
        std::fprintf(stderr, "with %d descriptors: %s\n", static_cast<int>(most), status.error().to_string().c_str());
        return false;
      }
      return false;
    };
    EXPECT_EQ(in_child(edits_at_last), 0);
  }
  EXPECT_EQ(directory.names(), Names{"model"});
}

// A file of 40 MiB and some bytes, and what a progress function saw.
class EditProgress : public EditMetadata {
 protected:
  void SetUp() override {
    const std::string bytes = noise((std::size_t{40} << 20) + 3);
    const std::uint64_t length[] = {bytes.size()};
    const TensorData tensors[] = {{.name = "t", .dtype = Dtype::U8, .shape = length, .bytes = bytes_of(bytes)}};
    ASSERT_TRUE(succeeds(save(path, tensors, std::nullopt, {.durability = Durability::none})));
    old = contents(path);
  }
  Status edit(std::function<bool(std::uint64_t, std::uint64_t)> progress, Durability durability) {
    return edit_metadata(path, {{"k", "v"}}, {.write = {.durability = durability, .progress = std::move(progress)}});
  }
  std::string old;
};

TEST_F(EditProgress, EndsBeforeFileIsReplaced) {
  for (const Durability durability : {Durability::none, Durability::full}) {
    std::vector<std::uint64_t> reports;
    std::uint64_t size = 0;
    const ino_t inode = inode_of(path);
    const auto progress = [&](std::uint64_t done, std::uint64_t total) {
      EXPECT_EQ(inode_of(path), inode);
      EXPECT_LE(done, total);
      if (!reports.empty()) {
        EXPECT_GT(done, reports.back());
      }
      reports.push_back(done);
      size = total;
      return true;
    };
    ASSERT_TRUE(succeeds(edit(progress, durability)));
    EXPECT_EQ(size, std::filesystem::file_size(path));
    ASSERT_GE(reports.size(), 3u);
    EXPECT_EQ(reports.back(), size);
    EXPECT_TRUE(contents(path).ends_with(std::string_view(old).substr(old.size() - (std::size_t{40} << 20))));
  }
}

TEST_F(EditProgress, KeepsOldFileIfCancelled) {
  for (const Durability durability : {Durability::none, Durability::full}) {
    for (int stop_at = 1;; ++stop_at) {
      const ino_t inode = inode_of(path);
      int reports = 0;
      const Status status = edit([&](auto, auto) { return ++reports < stop_at; }, durability);
      if (reports < stop_at) {  // the call before was the last one
        EXPECT_TRUE(succeeds(status));
        EXPECT_GE(reports, 3);
        break;
      }
      const Error error = error_of(status);
      EXPECT_EQ(error.code, Errc::cancelled);
      EXPECT_EQ(error.message.substr(0, 16), "cancelled after ");
      EXPECT_EQ(error.path, path);
      EXPECT_EQ(reports, stop_at);
      EXPECT_EQ(inode_of(path), inode);
      EXPECT_TRUE(contents(path) == old);
      EXPECT_EQ(directory.names(), Names{"model"});
    }
    old = contents(path);
  }
}

TEST_F(EditProgress, DetectsChangeUntilLastCall) {
  const auto replace_it = [&](std::uint64_t done, std::uint64_t total) {
    if (done == total) {
      put(directory / "other", "other");
      EXPECT_EQ(::rename((directory / "other").c_str(), path.c_str()), 0);
    }
    return true;
  };
  EXPECT_EQ(error_of(edit(replace_it, Durability::full)).code, Errc::file_changed);
  EXPECT_TRUE(contents(path) == "other");
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(EditProgress, ReportsNothingInPlace) {
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", "v"}}, {.metadata_slack = 64})));
  int reports = 0;
  EditOptions options{.in_place = true};
  options.write.progress = [&](auto, auto) { return ++reports < 0; };
  ASSERT_TRUE(succeeds(edit_metadata(path, {{"k", "w"}}, options)));
  EXPECT_EQ(reports, 0);
}

}  // namespace
}  // namespace safetensors::test
