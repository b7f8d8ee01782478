#include "prompt/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <utility>

#include "kvern_vocab.h"
#include "prompt/gguf_metadata.h"
#include "prompt/text_pieces.h"
#include "prompt/token_cache.h"
#include "prompt/token_matcher.h"

namespace kvern::prompt {
namespace {

using kvern_vocab::Kind;
using kvern_vocab::Vocabulary;

/// About ten conversations of 100,000 tokens.
constexpr std::size_t kCacheBytes = 32U << 20U;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// `<b>`, `</table>`: Gemma's vocabularies have HTML elements as user-defined tokens, which are text.
bool is_html_element(std::string_view text) {
  constexpr std::array<std::string_view, 27> kElements = {
      "table",      "caption", "thead", "tbody", "tfoot", "tr", "th", "td",  "h1",  "h2",   "h3", "h4", "h5", "h6",
      "blockquote", "strong",  "em",    "b",     "i",     "u",  "s",  "sub", "sup", "code", "p",  "ul", "li"};
  text.remove_prefix(text.starts_with("</") ? 2 : 1);
  text.remove_suffix(1);
  return std::find(kElements.begin(), kElements.end(), text) != kElements.end();
}

bool is_markup(std::string_view text) {
  if (text.size() < 3) return false;
  if (text.front() == '[' && text.back() == ']') return true;
  return text.front() == '<' && text.back() == '>' && !is_html_element(text);
}

class GgufTokenizer final : public Tokenizer {
 public:
  explicit GgufTokenizer(const kvern_vocab::Metadata& metadata)
      : vocabulary_(metadata), unknown_(vocabulary_.unknown()) {
    special_.resize(vocabulary_.size());
    for (TokenId token = 0; in_range(token); ++token) {
      const Kind kind = vocabulary_.kind(token);
      const std::string& text = vocabulary_.spelling(token);
      piece_bytes_max_ = std::max(piece_bytes_max_, vocabulary_.piece(token).size());
      if (text.empty()) continue;
      if (kind == Kind::kControl || kind == Kind::kUnknown || (kind == Kind::kUserDefined && is_markup(text))) {
        special_[static_cast<std::size_t>(token)] = true;
        specials_.add(text, token);
      } else if (kind == Kind::kUserDefined) {
        added_text_.add(text, token);
      }
    }
    find_frame();
  }

  Tokens encode(std::span<const Span> spans, std::string_view name_space) const override {
    Joined joined;
    joined.name_space = name_space;
    std::size_t bytes = 0;
    for (const Span& span : spans) bytes += span.text.size();
    joined.text.reserve(bytes);
    Tokens out;
    out.reserve(bytes / 4);
    for (std::size_t i = 0; i < spans.size();) {
      const std::size_t run_from = joined.text.size();
      const Origin origin = spans[i].origin;
      for (; i < spans.size() && spans[i].origin == origin; ++i) joined.text += spans[i].text;
      if (origin == Origin::kTemplate) specials_of(joined, run_from, out);
    }
    plain_to(joined, joined.text.size(), out);
    return out;
  }

  Tokens encode_text(std::string_view text, bool add_special, std::string_view name_space) const override {
    Tokens out;
    if (add_special) out = before_;
    plain(text, name_space, out);
    if (add_special) out.insert(out.end(), after_.begin(), after_.end());
    return out;
  }

  std::string piece(TokenId token, bool special) const override {
    if (!in_range(token)) return {};
    if (!special) {
      const Kind kind = vocabulary_.kind(token);
      if (kind == Kind::kControl || kind == Kind::kUnknown) return {};
    }
    return vocabulary_.piece(token);
  }
  bool is_special(TokenId token) const override { return in_range(token) && special_[static_cast<std::size_t>(token)]; }
  bool is_end(TokenId token) const override { return in_range(token) && vocabulary_.ends_generation(token); }
  std::uint32_t size() const override { return vocabulary_.size(); }
  std::size_t piece_bytes_max() const override { return piece_bytes_max_; }

 private:
  /// The prompt so far, and from where on it is not tokenised yet.
  struct Joined {
    std::string text;
    std::string_view name_space;
    std::size_t from = 0;
    bool strip = false;  // the special token before `from` takes the whitespace behind it
  };

  /// Appends every special token of the template run [run_from, end), and the text before each.
  void specials_of(Joined& joined, std::size_t run_from, Tokens& out) const {
    for (std::size_t from = run_from;;) {
      const TokenMatcher::Match match = specials_.find(joined.text, from);
      if (match.bytes == 0) return;
      std::size_t end = match.at;
      if (vocabulary_.strips_left(match.token)) {
        while (end > joined.from && is_space(joined.text[end - 1])) --end;
      }
      plain_to(joined, end, out);
      out.push_back(match.token);
      from = match.at + match.bytes;
      joined.from = from;
      joined.strip = vocabulary_.strips_right(match.token);
    }
  }

  /// Appends the text from where it is not tokenised yet up to `end`.
  void plain_to(Joined& joined, std::size_t end, Tokens& out) const {
    if (joined.strip) {
      while (joined.from < end && is_space(joined.text[joined.from])) ++joined.from;
      joined.strip = false;
    }
    if (joined.from < end)
      plain(std::string_view(joined.text).substr(joined.from, end - joined.from), joined.name_space, out);
    joined.from = std::max(joined.from, end);
  }

  /// Appends the tokens of text without special tokens, which depend on nothing but the text.
  void plain(std::string_view text, std::string_view name_space, Tokens& out) const {
    if (cache_.find(name_space, text, out)) return;
    const std::size_t before = out.size();
    tokenise(text, out);
    cache_.insert(name_space, text, std::span(out).subspan(before));
  }

  void tokenise(std::string_view text, Tokens& out) const {
    for (std::size_t from = 0; from < text.size();) {
      const TokenMatcher::Match match = added_text_.find(text, from);
      const std::size_t end = match.bytes == 0 ? text.size() : match.at;
      if (end > from) words(text.substr(from, end - from), out);
      if (match.bytes == 0) return;
      out.push_back(match.token);
      from = match.at + match.bytes;
    }
  }

  /// Appends the tokens of text without any added token.
  void words(std::string_view text, Tokens& out) const {
    if (!vocabulary_.general_regex()) return piece_of(text, out);
    while (!text.empty()) {
      const std::size_t bytes = next_piece(text);
      piece_of(text.substr(0, bytes), out);
      text.remove_prefix(bytes);
    }
  }

  void piece_of(std::string_view text, Tokens& out) const {
    const std::size_t before = out.size();
    try {
      vocabulary_.tokenize(std::string(text), false, out);
    } catch (const std::exception&) {
      // A vocabulary without a token for some byte of it: what it has characters for is kept.
      out.resize(before);
      vocabulary_.spell_out(std::string(text), out);
      return;
    }
    // Some vocabularies can build a special token's spelling out of plain pieces. Rare, so only then is `out` rebuilt.
    const auto forged = std::find_if(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
                                     [this](TokenId token) { return is_special(token) && token != unknown_; });
    if (forged == out.end()) return;
    Tokens rebuilt(out.begin(), forged);
    for (auto it = forged; it != out.end(); ++it) {
      if (is_special(*it) && *it != unknown_) {
        vocabulary_.spell_out(vocabulary_.spelling(*it), rebuilt);
      } else {
        rebuilt.push_back(*it);
      }
    }
    out = std::move(rebuilt);
  }

  void find_frame() {
    std::vector<std::int32_t> bare;
    std::vector<std::int32_t> framed;
    vocabulary_.tokenize("a", false, bare);
    vocabulary_.tokenize("a", true, framed);
    const auto at = std::search(framed.begin(), framed.end(), bare.begin(), bare.end());
    before_.assign(framed.begin(), at);
    if (at != framed.end()) after_.assign(at + static_cast<std::ptrdiff_t>(bare.size()), framed.end());
  }

  Vocabulary vocabulary_;
  std::vector<bool> special_;
  std::size_t piece_bytes_max_ = 0;
  TokenMatcher specials_;
  TokenMatcher added_text_;
  Tokens before_;  // what a raw prompt is framed with
  Tokens after_;
  TokenId unknown_ = -1;  // stands for text that has no token; says nothing
  mutable TokenCache cache_{kCacheBytes};
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const GgufInfo& model) {
  if (model.metadata == nullptr || model.vocab_tokens == 0) {
    return fail(ErrorCode::kInvalidRequest, "the model file has no vocabulary");
  }
  try {
    return std::shared_ptr<const Tokenizer>(std::make_shared<GgufTokenizer>(model.metadata->values));
  } catch (const std::exception& error) {
    std::string reason;
    for (const char c : std::string_view(error.what()).substr(0, 200)) reason += c >= ' ' && c <= '~' ? c : ' ';
    return fail(ErrorCode::kInvalidRequest, "the model's vocabulary cannot be used: " + reason);
  }
}

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::filesystem::path& model) {
  Result<GgufInfo> info = inspect(model);
  if (!info.ok()) return std::move(info).error();
  return load_tokenizer(*info);
}

}  // namespace kvern::prompt
