#include "prompt/jinja_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace kvern::prompt {
namespace {

using testing::HasSubstr;

ir::Message message(ir::Role role, ir::Content content) { return {role, "", {{std::move(content), {}}}}; }

ir::Request asking(std::vector<ir::Message> messages) {
  ir::Request request;
  request.prompt = std::move(messages);
  return request;
}
ir::Request user(const std::string& text) { return asking({message(ir::Role::kUser, ir::Text{text})}); }

std::shared_ptr<const ChatTemplate> compiled(std::string_view source) {
  auto made = compile_template(source, {"<s>", "</s>"});
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return made.ok() ? *made : nullptr;
}

std::string joined(const std::vector<Span>& spans) {
  std::string text;
  for (const Span& span : spans) text += span.text;
  return text;
}

/// Template text as it is, data in braces.
std::string marked(std::string_view source, const ir::Request& request) {
  const auto chat = compiled(source);
  if (chat == nullptr) return "(does not compile)";
  const auto spans = chat->render(request);
  if (!spans.ok()) return spans.error().message;
  std::string text;
  for (const Span& span : *spans) text += span.origin == Origin::kData ? "{" + span.text + "}" : span.text;
  return text;
}

TEST(JinjaTemplate, PrintsAConversationWithItsOrigins) {
  const std::string source =
      "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  EXPECT_EQ(marked(source, asking({message(ir::Role::kDeveloper, ir::Text{"Be brief."}),
                                   message(ir::Role::kUser, ir::Text{"Hi <|user|>"})})),
            "<s><|system|>{Be brief.}</s><|user|>{Hi <|user|>}</s><|assistant|>");
}

/// One line for each way in which a template may handle text: none turns data into template text.
TEST(JinjaTemplate, DataStaysDataThroughEveryFilter) {
  const std::string m = "{% set c = messages[0].content %}";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{{ c }}", "{ a,B <x> }"},
      {"{{ '<' + c + '>' }}", "<{ a,B <x> }>"},
      {"{{ '<' ~ c ~ 1 }}", "<{ a,B <x> }1"},
      {"{{ c | trim }}", "{a,B <x>}"},
      {"{{ c.strip() }}{{ c.lstrip() }}{{ c.rstrip() }}", "{a,B <x>a,B <x>  a,B <x>}"},
      {"{{ c | upper }}{{ c | lower }}{{ c | title }}{{ c | capitalize }}", "{ A,B <X>  a,b <x>  A,b <x>  a,b <x> }"},
      {"{{ c | replace('<x>', '<y>') }}", "{ a,B }<y>{ }"},
      {"{{ '<z>' | replace('z', c) }}", "<{ a,B <x> }>"},
      {"{{ c.split(',')[0] }}|{{ c.split(',')[1] }}", "{ a}|{B <x> }"},
      {"{{ c.rsplit(' ', 1)[0] }}", "{ a,B <x>}"},
      {"{{ [c, 'q'] | join('-') }}", "{ a,B <x> }-q"},
      {"{{ ['p', 'q'] | join(c) }}", "p{ a,B <x> }q"},
      {"{{ '<{}>'.format(c) }}", "<{ a,B <x> }>"},
      {"{{ c | tojson }}", "{\" a,B <x> \"}"},
      {"{{ {'k': c} | tojson }}", "{{\"k\": \" a,B <x> \"}}"},
      {"{{ {'k': 'v'} | tojson }}", "{\"k\": \"v\"}"},
      {"{{ {'k': [c]} | tojson(indent=2) }}", "{{\n  \"k\": [\n    \" a,B <x> \"\n  ]\n}}"},
      {"{{ [c] | string }}", "{[' a,B <x> ']}"},
      {"{{ '' ~ {'k': c} }}", "{{'k': ' a,B <x> '}}"},
      {"{{ c[1] }}{{ c[3:4] }}{{ c[::-1] }}", "{aB >x< B,a }"},
      {"{{ c * 2 }}", "{ a,B <x>  a,B <x> }"},
      {"{{ c | indent(2, true) }}", "  { a,B <x> }"},
      {"{{ c | default('d') }}{{ c | string }}{{ c | safe }}", "{ a,B <x>  a,B <x>  a,B <x> }"},
      {"{{ [c] | first }}{{ [c] | last }}{{ [c] | list | join }}", "{ a,B <x>  a,B <x>  a,B <x> }"},
      {"{{ [c, 'a'] | sort | join('|') }}", "{ a,B <x> }|a"},
      {"{{ {c: 1}.keys() | list | join }}", "{ a,B <x> }"},
      {"{% for k, v in {c: c}.items() %}{{ k }}={{ v }}{% endfor %}", "{ a,B <x> }={ a,B <x> }"},
      {"{{ [{'n': c}] | map(attribute='n') | join }}", "{ a,B <x> }"},
      {"{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(c) | trim }}", "<{ a,B <x> }>"},
      {"{% set b %}<{{ c }}>{% endset %}{{ b | replace(',', '.') }}", "<{ a}.{B <x> }>"},
      {"{% filter trim %} {{ c }}{% endfilter %}", "{a,B <x>}"},
      {"{{ c if c else '' }}{{ c or 'x' }}", "{ a,B <x>  a,B <x> }"},
      {"{% set ns = namespace(t='<') %}{% set ns.t = ns.t + c %}{{ ns.t }}", "<{ a,B <x> }"},
      {"{% macro f() %}<{{ caller(1) }}>{% endmacro %}{% call(x) f() %}{{ c }}{% endcall %}", "<{ a,B <x> }>"},
  };
  for (const auto& [body, expected] : cases) {
    EXPECT_EQ(marked(m + body, user(" a,B <x> ")), expected) << body;
  }
}

TEST(JinjaTemplate, ToolsAndCallsAreDataInOpenAisForm) {
  ir::Request request = user("hi");
  request.tools = {{"<|im_end|>", "Says.", R"({"type": "object", "properties": {"z": {}, "a": {}}})", false}};
  EXPECT_EQ(marked("{{ messages[0].content }}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}", request),
            "{hi{\"type\": \"function\", \"function\": {\"name\": \"<|im_end|>\", \"description\": \"Says.\", "
            "\"parameters\": {\"type\": \"object\", \"properties\": {\"z\": {}, \"a\": {}}}}}}");
  EXPECT_TRUE(compiled("{{ tools | tojson }}{{ messages[0].content }}")->traits().tools);
  EXPECT_FALSE(compiled("{{ messages[0].content }}")->traits().tools);
}

TEST(JinjaTemplate, CallsComeInTheFormTheTemplateTakes) {
  const std::vector<ir::Message> talk = {
      message(ir::Role::kUser, ir::Text{"go"}),
      {ir::Role::kAssistant, "", {{ir::Text{"ok"}, {}}, {ir::ToolCall{"c1", "ls", "{\"p\":  1}"}, {}}}},
      message(ir::Role::kTool, ir::ToolResult{"c1", "ls", {ir::Text{"one"}, ir::Text{"two"}}, false})};
  const std::string head = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};";
  const std::string tail = "{% endfor %}";
  const std::string call = "{% for c in m.tool_calls or [] %}";
  // Printed as it stands: the exact text.
  EXPECT_EQ(marked(head + call + "{{ c.function.arguments }}{% endfor %}" + tail, asking(talk)),
            "u:{go};a:{ok};{{\"p\":  1}}t:{onetwo};");
  // Printed through tojson: an object, or it would be quoted twice.
  EXPECT_EQ(marked(head + call + "{{ c.function.arguments | tojson }}{% endfor %}" + tail, asking(talk)),
            "u:{go};a:{ok};{{\"p\": 1}}t:{onetwo};");
  // Walked: an object.
  EXPECT_EQ(marked(head + call +
                       "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}{% endfor %}" + tail,
                   asking(talk)),
            "u:{go};a:{ok};{p}=1t:{onetwo};");
  // Either: the exact text.
  EXPECT_EQ(marked(head + call +
                       "{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}"
                       "{% endfor %}" +
                       tail,
                   asking(talk)),
            "u:{go};a:{ok};{{\"p\":  1}}t:{onetwo};");
}

TEST(JinjaTemplate, ContentBecomesPartsWhereTheTemplateWantsThem) {
  EXPECT_EQ(marked("{% for m in messages %}{% for p in m.content %}{{ p.type }}:{{ p.text }}{% endfor %}{% endfor %}",
                   user("hi")),
            "text:{hi}");
}

TEST(JinjaTemplate, ReasoningIsItsOwnField) {
  ir::Message answer{ir::Role::kAssistant, "", {{ir::Thinking{"hm", "", ""}, {}}, {ir::Text{"yes"}, {}}}};
  EXPECT_EQ(marked("{% for m in messages %}{{ m.content }}{% if m.reasoning_content %}({{ m.reasoning_content }})"
                   "{% endif %}{% endfor %}",
                   asking({message(ir::Role::kUser, ir::Text{"q"}), answer})),
            "{qyes}({hm})");
}

TEST(JinjaTemplate, OptionsAreDataAndCannotShadow) {
  ir::Request request = user("hi");
  request.template_options = {{"enable_thinking", "false"}, {"effort", "\"<high>\""}};
  EXPECT_EQ(marked("{{ messages[0].content }}{{ effort }}{% if enable_thinking is false %}off{% endif %}", request),
            "{hi<high>}off");
  for (const char* name : {"messages", "bos_token", "chat_template", "raise_exception", "true", "a-b", "", "range"}) {
    request.template_options = {{name, "1"}};
    const auto spans = compiled("{{ messages[0].content }}")->render(request);
    ASSERT_FALSE(spans.ok()) << name;
    EXPECT_EQ(spans.error().code, ErrorCode::kInvalidRequest);
    EXPECT_EQ(spans.error().param, "chat_template_kwargs");
  }
}

TEST(JinjaTemplate, ARefusalCarriesTheTemplatesWords) {
  const auto chat = compiled(
      "{% if messages[0].role != 'user' %}{{ raise_exception('The first message\nmust be the user\\'s') }}{% endif %}"
      "{{ messages[0].content }}");
  const auto spans = chat->render(asking({message(ir::Role::kAssistant, ir::Text{"x"})}));
  ASSERT_FALSE(spans.ok());
  EXPECT_EQ(spans.error().code, ErrorCode::kInvalidRequest);
  EXPECT_EQ(spans.error().param, "messages");
  EXPECT_EQ(spans.error().message, "the model's chat template refuses this conversation: The first message");
}

TEST(JinjaTemplate, WhatDoesNotCompileSaysWhy) {
  for (const char* source : {"{% if %}", "{{ 1 + }}", "{% for 1 in x %}{% endfor %}", "{{", "{% endif %}", "{# open",
                             "{% set 1 = 2 %}{{ messages[0].content }}"}) {
    EXPECT_FALSE(compile_template(source, {}).ok() && compile_template(source, {}).value()->render(user("x")).ok())
        << source;
  }
  EXPECT_THAT(compile_template("{% if %}", {}).error().message, HasSubstr("does not compile"));
}

long peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

/// CPU time, so that a busy machine changes nothing.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Hostile model files: each ends within a second, names its bound, and has not eaten the machine.
#ifdef KVERN_SANITIZED
constexpr double kSecondsMax = 10;   // CPU time, several times dearer here
constexpr long kMegabytesMax = 512;  // freed memory is kept for a while, to find uses of it
#else
constexpr double kSecondsMax = 1;
constexpr long kMegabytesMax = 64;
#endif

TEST(JinjaTemplate, RunawayTemplatesEnd) {
  std::string doubling =
      "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}";
  std::string doubling_unrolled = "{% set s = 'ab' %}";
  for (int i = 0; i < 64; ++i) doubling_unrolled += "{% set s = s ~ s %}";
  std::string elifs = "{% if 0 %}";
  for (int i = 0; i < 50'000; ++i) elifs += "{% elif 0 %}";
  std::string sum = "{{ 1";
  std::string members = "{{ a";
  std::string nots = "{{ ";
  for (int i = 0; i < 100'000; ++i) {
    sum += "+1";
    members += ".a";
    nots += "not ";
  }
  const std::vector<std::string> sources = {
      "{% for i in range(10**9) %}{% endfor %}",
      "{% for i in range(1000000000) %}{% for j in range(1000000000) %}x{% endfor %}{% endfor %}",
      "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
      "{% for i in range(2000) %}{% for j in range(2000) %}{% for k in range(2000) %}{% endfor %}{% endfor %}{% endfor "
      "%}",
      doubling,
      doubling_unrolled,
      "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
      "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
      "{{ " + std::string(100'000, '(') + "1" + std::string(100'000, ')') + " }}",
      "{{ " + std::string(100'000, '[') + std::string(100'000, ']') + " }}",
      sum + " }}",
      members + " }}",
      nots + "1 }}",
      elifs + "{% endif %}",
      "{{ 'x' * 1000000000 }}",
      "{{ '' | replace('', 'x' * 1000000) | replace('x', 'y' * 1000000) }}",
      "{{ 'a' | indent(1000000000000, true) }}{{ {'a': [1]} | tojson(indent=2000000000) }}{{ range(9999999999) }}",
      "{% set a = [] %}{% set _ = a.append(a) %}{{ a }}",
      "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns | tojson }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(50000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=['k']) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | "
      "tojson }}",
      "{% for i in range(100000) %}{% if ('a' * 100000 ~ 'b') in ('a' * 200000) %}{% endif %}{% endfor %}",
      "{% for i in range(1000) %}{{ ('a,' * 500000).split(',') | length }}{% endfor %}",
  };
  const long before = peak_megabytes();
  for (const std::string& source : sources) {
    const double start = thread_seconds();
    auto chat = compile_template(source, {});
    const Error error = !chat.ok() ? chat.error() : [&] {
      auto spans = (*chat)->render(user("hi"));
      return spans.ok() ? Error{} : spans.error();
    }();
    const double seconds = thread_seconds() - start;
    EXPECT_THAT(error.message, testing::AnyOf(HasSubstr("bound: steps"), HasSubstr("bound: bytes"),
                                              HasSubstr("bound: depth"), HasSubstr("bound: time")))
        << source.substr(0, 120);
    EXPECT_LT(seconds, kSecondsMax) << source.substr(0, 120);
    RecordProperty("seconds", std::to_string(seconds));
  }
  EXPECT_LE(peak_megabytes() - before, kMegabytesMax);
}

TEST(JinjaTemplate, ArithmeticIsTotal) {
  for (const char* body :
       {"{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ 5 is divisibleby 0 }}", "{{ 9223372036854775807 + 1 }}",
        "{{ (-9223372036854775807 - 1) is divisibleby(-1) }}", "{{ 1e300 | int }}",
        "{{ range(1, 9223372036854775807, 9223372036854775806) | length }}", "{{ 'abc'[::-9223372036854775807] }}",
        "{{ [1, 'a', true, 2.5, none, [1]] | sort }}", "{{ -(-9223372036854775807 - 1) }}"}) {
    const auto chat = compile_template("{{ messages[0].content }}" + std::string(body), {});
    if (chat.ok()) (void)(*chat)->render(user("hi"));
  }
  SUCCEED();
}

TEST(JinjaTemplate, ManyThreadsRenderAtOnce) {
  const auto chat = compiled("{% for m in messages %}<{{ m.role }}>{{ m.content | trim | upper }}{% endfor %}");
  const std::string expected = joined(*chat->render(user(" a ")));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 500; ++n) {
        const auto spans = chat->render(user(" a "));
        if (!spans.ok() || joined(*spans) != expected) ++wrong[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(JinjaTemplate, AModelWithoutOneGetsChatMl) {
  GgufInfo info;
  const auto chat = load_template(info);
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  EXPECT_THAT((*chat)->traits().warning, HasSubstr("no chat template"));
  EXPECT_TRUE((*chat)->traits().tools);
  EXPECT_TRUE((*chat)->traits().system);
  EXPECT_EQ(joined(*(*chat)->render(user("hi"))), "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  ir::Request request = asking({message(ir::Role::kSystem, ir::Text{"S"}), message(ir::Role::kUser, ir::Text{"u"}),
                                message(ir::Role::kAssistant, ir::ToolCall{"c", "ls", "{\"a\":1}"}),
                                message(ir::Role::kTool, ir::ToolResult{"c", "ls", {ir::Text{"r"}}, false})});
  request.tools = {{"ls", "", "", false}};
  const std::string text = joined(*(*chat)->render(request));
  EXPECT_THAT(text, HasSubstr("<|im_start|>system\nS\n\n# Tools"));
  EXPECT_THAT(text, HasSubstr("<tool_call>\n{\"name\": \"ls\", \"arguments\": {\"a\":1}}\n</tool_call><|im_end|>"));
  EXPECT_THAT(text, HasSubstr("<tool_response>\nr\n</tool_response>"));
  EXPECT_EQ(load_template(info, "{{ messages[0].content }}").value()->traits().warning, "");
}

}  // namespace
}  // namespace kvern::prompt
