// Drives the JavaScript SDKs of OpenAI and Anthropic: node sdks.mjs BASE_URL < jobs.json. A job is {api, stream, text,
// tools, max_tokens?, stop?, cancel?}; what was seen of each is printed as one JSON list, in the words of test_sdks.py.
// Streams go through the SDKs' own helpers, which are stricter than a loop over events. The SDKs are found through the
// folder this file was copied to, which holds node_modules.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import {readFileSync} from 'node:fs';

const baseURL = process.argv[2];
const quiet = {apiKey: 'unused', maxRetries: 0, timeout: 60_000};
const openai = new OpenAI({baseURL: baseURL + '/v1', ...quiet});
const anthropic = new Anthropic({baseURL, ...quiet});

const schema = {type: 'object', properties: {path: {type: 'string'}}};

async function chat({stream, text, tools, max_tokens, stop, cancel}) {
  const body = {model: 'm', messages: [{role: 'user', content: text}], max_tokens, stop};
  if (tools) body.tools = [{type: 'function', function: {name: 'read_file', parameters: schema}}];
  let answer, streamed = '';
  if (stream) {
    const running = openai.chat.completions.stream(body);
    // A field that OpenAI's schema lacks: the helper keeps only its last piece.
    running.on('chunk', ({choices: [choice]}) => streamed += choice?.delta.reasoning_content ?? '');
    if (cancel) return abortAtFirst(running, 'content');
    answer = await running.finalChatCompletion();
  } else {
    answer = await openai.chat.completions.create(body);
  }
  const {message, finish_reason} = answer.choices[0];
  return {
    text: message.content ?? '', thinking: stream ? streamed : message.reasoning_content ?? '', end: finish_reason,
    calls: (message.tool_calls ?? []).map((call) => [call.function.name, call.function.arguments])};
}

async function responses({stream, text, tools, max_tokens, cancel}) {
  const body = {model: 'm', input: text, store: false, max_output_tokens: max_tokens, reasoning: {summary: 'auto'}};
  if (tools) {
    body.tools = [
      {type: 'function', name: 'read_file', parameters: schema, strict: false}, {type: 'custom', name: 'note'}];
  }
  let answer;
  if (stream) {
    const running = openai.responses.stream(body);
    if (cancel) return abortAtFirst(running, 'response.output_text.delta');
    answer = await running.finalResponse();
  } else {
    answer = await openai.responses.create(body);
  }
  if (answer.status === 'failed') throw new Error(answer.error.message);
  const of = (type) => answer.output.filter((item) => item.type === type);
  return {
    text: of('message').flatMap((item) => item.content).map((part) => part.text).join(''),
    thinking: of('reasoning').flatMap((item) => item.summary).map((part) => part.text).join(''),
    end: answer.incomplete_details?.reason ?? answer.status,
    calls: answer.output.filter((item) => item.type.endsWith('_call'))
        .map((item) => [item.name, item.arguments ?? item.input])};
}

async function messages({stream, text, tools, max_tokens, stop, cancel}) {
  const body = {
    model: 'm', messages: [{role: 'user', content: text}], max_tokens: max_tokens ?? 256, stop_sequences: stop};
  if (tools) body.tools = [{name: 'read_file', input_schema: schema}];
  let answer;
  if (stream) {
    const running = anthropic.messages.stream(body);
    if (cancel) return abortAtFirst(running, 'text');
    answer = await running.finalMessage();
  } else {
    answer = await anthropic.messages.create(body);
  }
  const of = (type) => answer.content.filter((block) => block.type === type);
  return {
    text: of('text').map((block) => block.text).join(''),
    thinking: of('thinking').map((block) => block.thinking).join(''), end: answer.stop_reason,
    calls: of('tool_use').map((block) => [block.name, JSON.stringify(block.input)])};
}

async function abortAtFirst(running, event) {
  running.on('error', () => {});
  running.on('abort', () => {});
  await new Promise((resolve) => running.on(event, resolve));
  running.abort();
  return {cancelled: true};
}

const apis = {chat, responses, messages};
const seen = [];
for (const job of JSON.parse(readFileSync(0, 'utf8'))) {
  try {
    seen.push(await apis[job.api](job));
  } catch (error) {
    seen.push({error: error.constructor.name, message: String(error.message), status: error.status ?? null});
  }
}
console.log(JSON.stringify(seen));
process.exit(0);
