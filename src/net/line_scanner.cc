#include "net/line_scanner.h"

namespace kvern::net {
namespace {

/// HTAB, printable ASCII and bytes beyond it; no control byte.
bool is_text(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7F);
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

ScanVerdict HeadScanner::scan(std::string_view bytes, std::size_t& used) {
  for (used = 0; used < bytes.size();) {
    const char c = bytes[used++];
    switch (state_) {
      case State::kBlank:
        if (c == '\r') {
          state_ = State::kBlankCr;
        } else if (is_text(c)) {
          state_ = State::kText;
        } else {
          return ScanVerdict::kBad;
        }
        break;
      case State::kBlankCr:
        if (c != '\n') return ScanVerdict::kBad;
        state_ = State::kBlank;
        break;
      case State::kText:
        if (c == '\r') {
          state_ = State::kCr;
        } else if (!is_text(c)) {
          return ScanVerdict::kBad;
        }
        break;
      case State::kCr:
        if (c != '\n') return ScanVerdict::kBad;
        state_ = State::kLineStart;
        break;
      case State::kLineStart:
        if (c == '\r') {
          state_ = State::kEndCr;
        } else if (c == ' ' || c == '\t' || !is_text(c)) {
          return ScanVerdict::kBad;  // a folded line, or a control byte
        } else {
          state_ = State::kText;
        }
        break;
      case State::kEndCr: return c == '\n' ? ScanVerdict::kEnd : ScanVerdict::kBad;
    }
  }
  return ScanVerdict::kMore;
}

ScanVerdict ChunkLineScanner::scan(std::string_view bytes, std::size_t& used) {
  for (used = 0; used < bytes.size();) {
    const char c = bytes[used++];
    switch (state_) {
      case State::kOldCr:
        if (c != '\r') return ScanVerdict::kBad;
        state_ = State::kOldLf;
        break;
      case State::kOldLf:
        if (c != '\n') return ScanVerdict::kBad;
        state_ = State::kSize0;
        break;
      case State::kSize0:
      case State::kSize:
        if (is_hex(c)) {
          nonzero_ = nonzero_ || c != '0';
          state_ = State::kSize;
        } else if (state_ == State::kSize && c == '\r') {
          state_ = State::kCr;
        } else if (state_ == State::kSize && (c == ';' || c == ' ' || c == '\t')) {
          state_ = State::kExtension;
        } else {
          return ScanVerdict::kBad;  // empty, signed, or no number
        }
        break;
      case State::kExtension:
        if (c == '\r') {
          state_ = State::kCr;
        } else if (!is_text(c)) {
          return ScanVerdict::kBad;
        }
        break;
      case State::kCr: return c == '\n' ? ScanVerdict::kEnd : ScanVerdict::kBad;
    }
  }
  return ScanVerdict::kMore;
}

}  // namespace kvern::net
