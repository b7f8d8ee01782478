#include "base/testing/source_path.h"

namespace kvern {

std::string source_path(std::string_view under_src) { return KVERN_SOURCE_DIR "/" + std::string(under_src); }

}  // namespace kvern
