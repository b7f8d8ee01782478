// Cutters for rules that llama.cpp leaves to std::regex, whose recursion and time grow with the text. Same cuts, linear,
// no recursion. Included inside namespace kvern_vocab, after unicode.h.

/// Cuts out runs of at least `least` and at most `most` code points of a class; what is between them stays whole.
template <typename Class>
std::vector<std::size_t> cut_runs(const std::vector<std::uint32_t>& text, const std::vector<std::size_t>& offsets,
                                  Class is, std::size_t least, std::size_t most) {
  std::vector<std::size_t> out;
  std::size_t start = 0;
  for (const std::size_t length : offsets) {
    const std::size_t end = start + length;
    std::size_t gap = start;
    for (std::size_t at = start; at < end;) {
      std::size_t run = 0;
      while (run < most && at + run < end && is(text[at + run])) ++run;
      if (run < least) {
        ++at;
        continue;
      }
      if (at > gap) out.push_back(at - gap);
      out.push_back(run);
      at += run;
      gap = at;
    }
    if (end > gap) out.push_back(end - gap);
    start = end;
  }
  return out;
}

/// Nothing where the rule is not one of these.
inline std::vector<std::size_t> cut_by_rule(const std::string& text, const std::string& rule,
                                            const std::vector<std::size_t>& offsets) {
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  const auto number = [](std::uint32_t c) { return unicode_cpt_flags_from_cpt(c).is_number != 0; };
  const auto digit = [](std::uint32_t c) { return c >= '0' && c <= '9'; };
  const auto newline = [](std::uint32_t c) { return c == '\r' || c == '\n'; };
  const bool known = rule == "\\p{N}" || rule == "\\p{N}+" || rule == "\\p{N}{1,3}" || rule == "[0-9][0-9][0-9]" ||
                     rule == "[\r\n]" || rule == "\\s+$";
  if (!known) return {};
  const std::vector<std::uint32_t> points = unicode_cpts_from_utf8(text);
  if (rule == "\\p{N}") return cut_runs(points, offsets, number, 1, 1);
  if (rule == "\\p{N}+") return cut_runs(points, offsets, number, 1, kAny);
  if (rule == "\\p{N}{1,3}") return cut_runs(points, offsets, number, 1, 3);
  if (rule == "[0-9][0-9][0-9]") return cut_runs(points, offsets, digit, 3, 3);
  if (rule == "[\r\n]") return cut_runs(points, offsets, newline, 1, 1);
  // \s+$: the whitespace that ends a piece
  std::vector<std::size_t> out;
  std::size_t start = 0;
  for (const std::size_t length : offsets) {
    std::size_t keep = length;
    while (keep > 0 && (points[start + keep - 1] < 128 ? std::isspace(static_cast<int>(points[start + keep - 1])) != 0
                                                      : unicode_cpt_flags_from_cpt(points[start + keep - 1]).is_whitespace)) {
      --keep;
    }
    if (keep > 0) out.push_back(keep);
    if (length > keep) out.push_back(length - keep);
    start += length;
  }
  return out;
}

/// A regular expression compiled once a thread; llama.cpp compiles it for every text.
template <typename CharT>
const std::basic_regex<CharT>& compiled(const std::basic_string<CharT>& rule, std::regex_constants::syntax_option_type flags) {
  thread_local std::map<std::basic_string<CharT>, std::basic_regex<CharT>> cache;
  auto it = cache.find(rule);
  if (it == cache.end()) it = cache.emplace(rule, std::basic_regex<CharT>(rule, flags)).first;
  return it->second;
}
