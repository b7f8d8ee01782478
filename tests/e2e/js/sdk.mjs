// Drives OpenAI's JavaScript SDK: node sdk.mjs BASE_URL MODEL TEXT complete|stream [FIELDS]. FIELDS is JSON that joins
// the request. Prints one JSON document of what it saw of the first choice, and under `texts` of all. The SDK is found
// through the folder this file was copied to, which holds node_modules.
import OpenAI from 'openai';

const [baseURL, model, text, mode, fields] = process.argv.slice(2);
const client = new OpenAI({baseURL, apiKey: 'unused', maxRetries: 0, timeout: 120_000});
const tools = [{type: 'function', function: {name: 'read_file', parameters: {type: 'object'}}}];
const body = {
  model, messages: [{role: 'user', content: text}], max_tokens: 64, temperature: 0, ...JSON.parse(fields ?? '{}')};
if (!model) body.tools = tools;  // the script answers as a model that knows tools
const seen = {content: '', reasoning: '', calls: [], finish: null, usage: null, error: null, texts: [],
              logprobs: []};

try {
  if (mode === 'complete') {
    const answer = await client.chat.completions.create(body);
    const {message, finish_reason} = answer.choices[0];
    seen.content = message.content ?? '';
    seen.reasoning = message.reasoning_content ?? '';
    seen.calls = (message.tool_calls ?? []).map((call) => [call.function.name, call.function.arguments]);
    seen.finish = finish_reason;
    seen.usage = answer.usage;
    seen.texts = answer.choices.map((choice) => choice.message.content ?? '');
    seen.logprobs = answer.choices[0].logprobs?.content ?? [];
  } else {
    const stream = await client.chat.completions.create(
        {...body, stream: true, stream_options: {include_usage: true}});
    for await (const chunk of stream) {
      if (chunk.usage) seen.usage = chunk.usage;
      for (const {index, delta, finish_reason, logprobs} of chunk.choices) {
        seen.texts[index] = (seen.texts[index] ?? '') + (delta.content ?? '');
        if (index > 0) continue;
        seen.logprobs.push(...(logprobs?.content ?? []));
        seen.content += delta.content ?? '';
        seen.reasoning += delta.reasoning_content ?? '';
        for (const call of delta.tool_calls ?? []) {
          seen.calls[call.index] ??= [call.function.name, ''];
          seen.calls[call.index][1] += call.function.arguments ?? '';
        }
        seen.finish = finish_reason ?? seen.finish;
      }
    }
  }
} catch (error) {
  seen.error = {status: error.status ?? null, code: error.code ?? null, message: String(error.message)};
}
console.log(JSON.stringify(seen));
