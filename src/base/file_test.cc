#include "base/file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace kvern {
namespace {

TEST(ReadFile, ReadsUpToItsBound) {
  const std::string path = testing::TempDir() + "kvern_read_file";
  std::ofstream(path) << "12345";
  EXPECT_EQ(*read_file(path, 5), "12345");
  EXPECT_EQ(read_file(path, 4).error().code, ErrorCode::kTooLarge);
  std::remove(path.c_str());
  EXPECT_EQ(read_file(path, 4).error().code, ErrorCode::kNotFound);
}

TEST(ReadFile, FoldersAndEndlessFilesAreErrors) {
  EXPECT_EQ(read_file("/", 100).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_file("/dev/zero", 100).error().code, ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace kvern
