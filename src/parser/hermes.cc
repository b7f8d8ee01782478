#include "parser/hermes.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "parser/block_writer.h"
#include "parser/call_envelope.h"

namespace kvern::parser {
namespace {

enum class Marker : std::uint8_t { kThink, kThinkEnd, kCall, kCallEnd };
constexpr std::array kMarkers{Marker::kThink, Marker::kThinkEnd, Marker::kCall, Marker::kCallEnd};

constexpr std::string_view text_of(Marker marker) noexcept {
  switch (marker) {
    case Marker::kThink: return "<think>";
    case Marker::kThinkEnd: return "</think>";
    case Marker::kCall: return "<tool_call>";
    case Marker::kCallEnd: return "</tool_call>";
  }
  return "";
}

constexpr std::size_t kSpaceMost = 256;
constexpr std::size_t kCutMarker = 4;  // a shorter piece of a marker at a cut is as likely text
constexpr std::string_view kSpaces = " \n\r\t";

bool is_space(char c) noexcept { return kSpaces.find(c) != std::string_view::npos; }

class HermesParser final : public Parser {
 public:
  explicit HermesParser(const HermesOptions& options) : parse_calls_(options.parse_calls) {
    if (options.starts_in_reasoning) enter(Region::kThinking, Leading::kDrop);
  }

  void add(std::string_view text, std::vector<Piece>& out) override {
    std::size_t at = 0;
    while (at < text.size()) {
      if (!pending_.empty()) {
        extend_marker(text, at, out);
        continue;
      }
      switch (region_) {
        case Region::kText:
        case Region::kThinking: prose(text, at, out); break;
        case Region::kOpening: opening(text, at, out); break;
        case Region::kCall: call(text, at, out); break;
        case Region::kBroken: skip_to_angle(text, at); break;
        case Region::kTail: tail(text, at); break;
      }
    }
  }

  void finish(bool complete, std::vector<Piece>& out) override {
    if (region_ == Region::kOpening) {
      pending_.clear();  // a call that never came
    } else if (const std::string held = std::exchange(pending_, {}); !held.empty()) {
      if (complete || held.size() < kCutMarker) no_marker(held, out);
    }
    if (region_ == Region::kCall || region_ == Region::kBroken) end_call(complete, out);
    // White space at the end of text is the model's own; with nothing before it, it is framing.
    if (region_ == Region::kText && (!fresh_ || leading_ == Leading::kKeep)) emit(std::exchange(space_, {}), out);
    writer_.close(out);
  }

 private:
  enum class Region : std::uint8_t {
    kText,
    kThinking,
    kOpening,  // behind <tool_call>, before its {
    kCall,
    kBroken,  // behind JSON that broke after the name
    kTail,    // behind the JSON of a call
  };
  /// What becomes of white space at the start of a stretch of text.
  enum class Leading : std::uint8_t {
    kKeep,          // start of the answer
    kKeepWithText,  // behind a call: kept if text follows
    kDrop,          // of reasoning, and behind it
  };

  bool in_prose() const noexcept { return region_ == Region::kText || region_ == Region::kThinking; }

  /// Begins a stretch. White space that still waited was framing.
  void enter(Region region, Leading leading) {
    region_ = region;
    leading_ = leading;
    fresh_ = true;
    space_.clear();
  }

  // --- text and reasoning ---

  void prose(std::string_view text, std::size_t& at, std::vector<Piece>& out) {
    const std::size_t end = std::min(text.find('<', at), text.size());
    put(text.substr(at, end - at), out);
    at = end;
    if (at < text.size()) pending_ = text[at++];
  }

  /// Adds to the current stretch. White space waits until it is known what follows.
  void put(std::string_view text, std::vector<Piece>& out) {
    const std::size_t last = text.find_last_not_of(kSpaces);
    if (last == std::string_view::npos) return hold_space(text, out);
    std::string_view body = text.substr(0, last + 1);
    if (fresh_ && leading_ == Leading::kDrop) body.remove_prefix(body.find_first_not_of(kSpaces));
    emit(std::exchange(space_, {}), out);
    emit(body, out);
    fresh_ = false;
    hold_space(text.substr(last + 1), out);
  }

  void hold_space(std::string_view text, std::vector<Piece>& out) {
    if (fresh_ && leading_ == Leading::kDrop) return;
    space_ += text;
    if (space_.size() <= kSpaceMost) return;
    const std::size_t surplus = space_.size() - kSpaceMost;
    emit(std::string_view(space_).substr(0, surplus), out);
    space_.erase(0, surplus);
    fresh_ = false;
  }

  void emit(std::string_view text, std::vector<Piece>& out) {
    writer_.text(region_ == Region::kThinking ? ir::BlockKind::kThinking : ir::BlockKind::kText, text, out);
  }

  // --- markers ---

  /// Whether a marker means something where we are.
  bool live(Marker marker) const noexcept {
    const bool prose = in_prose() || region_ == Region::kTail;
    if (marker == Marker::kThink) return prose && fresh_;
    if (marker == Marker::kThinkEnd) return prose;
    return parse_calls_;
  }

  /// Takes one more byte of what may be a marker, or gives up on it and leaves the byte (it may begin one).
  void extend_marker(std::string_view text, std::size_t& at, std::vector<Piece>& out) {
    pending_ += text[at];
    for (const Marker marker : kMarkers) {
      if (!live(marker) || !text_of(marker).starts_with(pending_)) continue;
      ++at;
      if (text_of(marker).size() == pending_.size()) {
        pending_.clear();
        on_marker(marker, out);
      }
      return;
    }
    pending_.pop_back();
    no_marker(std::exchange(pending_, {}), out);
  }

  void on_marker(Marker marker, std::vector<Piece>& out) {
    switch (marker) {
      case Marker::kThink:
        if (region_ != Region::kThinking) enter(Region::kThinking, Leading::kDrop);
        break;
      case Marker::kThinkEnd:
        if (region_ == Region::kText && !fresh_) break;  // a stray one
        writer_.close(out);
        enter(Region::kText, Leading::kDrop);
        break;
      case Marker::kCall:
        if (region_ == Region::kCall || region_ == Region::kBroken) end_call(/*complete=*/true, out);
        if (region_ != Region::kOpening) before_ = region_ == Region::kThinking ? Region::kThinking : Region::kText;
        region_ = Region::kOpening;
        opening_ = text_of(marker);
        break;
      case Marker::kCallEnd:
        if (region_ == Region::kCall || region_ == Region::kBroken) {
          end_call(/*complete=*/true, out);
        } else if (region_ == Region::kOpening) {
          region_ = before_;  // nothing between the markers
        } else if (region_ == Region::kTail) {
          region_ = Region::kText;
        } else if (std::exchange(literal_call_, false)) {
          put(text_of(marker), out);
        }
        break;
    }
  }

  /// The beginning of a marker turned out to be none.
  void no_marker(const std::string& held, std::vector<Piece>& out) {
    switch (region_) {
      case Region::kTail: region_ = Region::kText; [[fallthrough]];
      case Region::kText:
      case Region::kThinking: put(held, out); break;
      case Region::kOpening: not_a_call(held, out); break;
      case Region::kCall:
        if (envelope_.literal(held) != CallEnvelope::Status::kBroken) {
          drain(out);
        } else if (broken(out); in_prose()) {
          put(held, out);
        }
        break;
      case Region::kBroken: break;
    }
  }

  // --- calls ---

  void opening(std::string_view text, std::size_t& at, std::vector<Piece>& out) {
    const char c = text[at];
    if (c == '<') {
      pending_ = text[at++];
    } else if (c == '{') {
      ++at;
      envelope_ = CallEnvelope();
      enter(Region::kCall, Leading::kKeepWithText);
    } else if (is_space(c) && opening_.size() < kSpaceMost) {
      opening_ += text[at++];
    } else {
      not_a_call({}, out);
    }
  }

  /// A `<tool_call>` that no JSON follows was text after all.
  void not_a_call(std::string_view more, std::vector<Piece>& out) {
    region_ = before_;
    literal_call_ = true;
    put(opening_, out);
    put(more, out);
  }

  void call(std::string_view text, std::size_t& at, std::vector<Piece>& out) {
    const auto status = envelope_.feed(text, at);
    drain(out);
    switch (status) {
      case CallEnvelope::Status::kMore: break;
      case CallEnvelope::Status::kAngle: pending_ = text[at++]; break;
      case CallEnvelope::Status::kEnded:
        end_call(/*complete=*/true, out);
        region_ = Region::kTail;
        break;
      case CallEnvelope::Status::kBroken: broken(out); break;
    }
  }

  /// Gives what the envelope has, once it has a name.
  void drain(std::vector<Piece>& out) {
    if (!envelope_.named()) return;
    if (!call_open_) writer_.open_call(envelope_.name(), out);
    call_open_ = true;
    writer_.arguments(envelope_.arguments(), out);
    envelope_.arguments().clear();
  }

  void broken(std::vector<Piece>& out) {
    if (envelope_.named()) {
      region_ = Region::kBroken;
    } else {
      give_back(out);
    }
  }

  /// JSON without a name: text without its markers, so that nothing the model said is lost.
  void give_back(std::vector<Piece>& out) {
    const std::string raw = "{" + envelope_.raw();
    enter(Region::kText, Leading::kKeepWithText);
    put(raw, out);
  }

  /// Closes the call as it stands; text follows.
  void end_call(bool complete, std::vector<Piece>& out) {
    if (region_ == Region::kCall) envelope_.finish();
    drain(out);
    if (!call_open_ && complete) return give_back(out);
    if (call_open_) {
      if (complete && !envelope_.has_arguments()) writer_.arguments("{}", out);
      writer_.close(out);
    }
    call_open_ = false;
    enter(Region::kText, Leading::kKeepWithText);
  }

  /// Between the end of the JSON and what follows: white space and a brace too many mean nothing.
  void tail(std::string_view text, std::size_t& at) {
    if (text[at] == '<') {
      pending_ = text[at++];
    } else if (is_space(text[at]) || text[at] == '}') {
      ++at;
    } else {
      region_ = Region::kText;
    }
  }

  void skip_to_angle(std::string_view text, std::size_t& at) {
    at = std::min(text.find('<', at), text.size());
    if (at < text.size()) pending_ = text[at++];
  }

  const bool parse_calls_;
  Region region_ = Region::kText;
  Region before_ = Region::kText;  // where the <tool_call> being opened stood
  Leading leading_ = Leading::kKeep;
  bool fresh_ = true;          // only white space since the stretch began
  bool literal_call_ = false;  // a <tool_call> passed as text, so its end will
  bool call_open_ = false;
  std::string pending_;  // the beginning of what may be a marker
  std::string space_;    // waits for what follows
  std::string opening_;  // <tool_call> and white space, in case no call follows
  CallEnvelope envelope_;
  BlockWriter writer_;
};

}  // namespace

std::unique_ptr<Parser> make_hermes_parser(const HermesOptions& options) {
  return std::make_unique<HermesParser>(options);
}

}  // namespace kvern::parser
