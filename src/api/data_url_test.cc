#include "api/data_url.h"

#include <gtest/gtest.h>

namespace kvern::api {
namespace {

TEST(DataUrl, OnlyBase64IsTaken) {
  const auto image = parse_data_url("data:Image/PNG;charset=x;base64,iVBORw==");
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(image->media_type, "image/png");
  EXPECT_EQ(image->base64, "iVBORw==");
  EXPECT_EQ(parse_data_url("data:;base64,")->media_type, "text/plain");
  for (const char* url : {"", "data:", "data:image/png,abc", "http://h/x.png", "data:image/png;base64,***",
                          "data:image/png;base64,abc", "data:image/png;base64", "DATA:;base64,"}) {
    EXPECT_FALSE(parse_data_url(url).has_value()) << url;
  }
}

}  // namespace
}  // namespace kvern::api
