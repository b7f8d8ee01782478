#include "parser/call_envelope.h"

#include <algorithm>

namespace kvern::parser {
namespace {

bool is_space(char c) noexcept { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

CallEnvelope::Status CallEnvelope::feed(std::string_view text, std::size_t& at) {
  while (at < text.size()) {
    // Nearly all bytes of a long call are inside one string of its arguments: take them as a span.
    if (state_ == State::kNested && in_string_ && !escaped_ && field_ == Field::kArguments && named_) {
      const std::size_t end = std::min(text.find_first_of("\"\\", at), text.size());
      arguments_.append(text, at, end - at);
      at = end;
      if (at == text.size()) break;
    }
    const Status status = step(text[at]);
    if (status == Status::kAngle || status == Status::kBroken) return status;
    if (!named_) raw_ += text[at];
    ++at;
    if (status == Status::kEnded) return named_ ? status : Status::kBroken;
    if (raw_.size() > kHeldMost) return Status::kBroken;
  }
  return Status::kMore;
}

CallEnvelope::Status CallEnvelope::literal(std::string_view text) {
  if (state_ != State::kNested && state_ != State::kScalar) return Status::kBroken;
  for (const char c : text) keep(c);
  if (!named_) raw_ += text;
  return raw_.size() > kHeldMost ? Status::kBroken : Status::kMore;
}

void CallEnvelope::finish() {
  if (state_ == State::kScalar) scalar_done();
}

CallEnvelope::Field CallEnvelope::field() const {
  if (key_ == "name" && !named_) return Field::kName;
  if ((key_ == "arguments" || key_ == "parameters") && !has_arguments_) return Field::kArguments;
  return Field::kOther;
}

void CallEnvelope::keep(char c) {
  if (state_ == State::kScalar) {
    text_ += c;
  } else if (field_ == Field::kArguments) {
    arguments_ += c;
  }
}

void CallEnvelope::scalar_done() {
  state_ = State::kBeforeKey;
  if (field_ != Field::kArguments || text_ == "null") return;
  has_arguments_ = true;
  arguments_ += text_;
}

CallEnvelope::Status CallEnvelope::step(char c) {
  switch (state_) {
    case State::kBeforeKey:
      if (is_space(c) || c == ',') return Status::kMore;
      if (c == '}') return Status::kEnded;
      if (c == '<') return Status::kAngle;
      if (c != '"') return Status::kBroken;
      key_.clear();
      state_ = State::kKey;
      return Status::kMore;
    case State::kKey:
      if (string_.step(c, key_)) state_ = State::kBeforeColon;
      return key_.size() > kNameMost ? Status::kBroken : Status::kMore;
    case State::kBeforeColon:
      if (is_space(c)) return Status::kMore;
      if (c == '<') return Status::kAngle;
      if (c != ':') return Status::kBroken;
      state_ = State::kBeforeValue;
      field_ = field();
      return Status::kMore;
    case State::kBeforeValue: return begin_value(c);
    case State::kName:
      if (string_.step(c, name_)) {
        state_ = State::kBeforeKey;
        if (name_.empty()) return Status::kBroken;
        named_ = true;
        raw_.clear();
      }
      return name_.size() > kNameMost ? Status::kBroken : Status::kMore;
    case State::kText:
      // Arguments given as a string: what is inside is the argument text.
      if (string_.step(c, field_ == Field::kArguments ? arguments_ : text_)) state_ = State::kBeforeKey;
      if (field_ != Field::kArguments) text_.clear();
      return Status::kMore;
    case State::kNested: return nested(c);
    case State::kScalar:
      if (c == '<') return Status::kAngle;
      if (c == '}') {
        scalar_done();
        return Status::kEnded;
      }
      if (c == ',' || is_space(c)) {
        scalar_done();
      } else {
        keep(c);
      }
      return text_.size() > kNameMost ? Status::kBroken : Status::kMore;
  }
  return Status::kBroken;
}

CallEnvelope::Status CallEnvelope::begin_value(char c) {
  if (is_space(c)) return Status::kMore;
  if (c == '<') return Status::kAngle;
  if (c == '}' || c == ',' || c == ']' || (field_ == Field::kName && c != '"')) return Status::kBroken;
  text_.clear();
  if (c == '"') {
    has_arguments_ = has_arguments_ || field_ == Field::kArguments;
    state_ = field_ == Field::kName ? State::kName : State::kText;
  } else if (c == '{' || c == '[') {
    has_arguments_ = has_arguments_ || field_ == Field::kArguments;
    state_ = State::kNested;
    depth_ = 1;
    keep(c);
  } else {
    state_ = State::kScalar;
    keep(c);
  }
  return Status::kMore;
}

CallEnvelope::Status CallEnvelope::nested(char c) {
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
  } else if (c == '<') {
    return Status::kAngle;
  } else if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if ((c == '}' || c == ']') && --depth_ == 0) {
    keep(c);
    state_ = State::kBeforeKey;
    return Status::kMore;
  }
  keep(c);
  return Status::kMore;
}

}  // namespace kvern::parser
