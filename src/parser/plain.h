// The parser for models and endpoints without markup: everything is text.
#pragma once

#include <memory>

#include "parser/parser.h"

namespace kvern::parser {

std::unique_ptr<Parser> make_plain_parser();

}  // namespace kvern::parser
