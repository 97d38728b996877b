// The npm package openai, unmodified: chat and completions, streamed and not, errors.
import OpenAI from 'openai';

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 120000 });
const messages = [{ role: 'user', content: 'Count from one to five.' }];

function check(condition, what) {
  if (!condition) {
    console.error(`failed: ${what}`);
    process.exit(1);
  }
  console.log(`ok: ${what}`);
}

const model = (await client.models.list()).data[0].id;
const whole = await client.chat.completions.create({ model, messages, max_tokens: 24, temperature: 0 });
const text = whole.choices[0].message.content;
check(text.length > 0, 'a chat is answered');
check(whole.usage.total_tokens === whole.usage.prompt_tokens + whole.usage.completion_tokens, 'usage adds up');

let streamed = '';
let finishes = 0;
let usage = null;
const stream = await client.chat.completions.create({
  model, messages, max_tokens: 24, temperature: 0, stream: true, stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  usage = chunk.usage ?? usage;
  for (const choice of chunk.choices) {
    streamed += choice.delta.content ?? '';
    finishes += choice.finish_reason ? 1 : 0;
  }
}
check(streamed === text, 'the streamed text is the whole text');
check(finishes === 1, 'one finish reason');
check(usage.completion_tokens === whole.usage.completion_tokens, 'usage in the stream');

const completion = await client.completions.create({ model, prompt: 'Once upon a time', max_tokens: 8 });
check(typeof completion.choices[0].text === 'string', 'a text is completed');

const drawn = { model, messages, max_tokens: 24, temperature: 1.5 };
const first = await client.chat.completions.create(drawn);
const again = await client.chat.completions.create({ ...drawn, seed: first.seed });
check(Number.isSafeInteger(first.seed), 'the seed that was drawn is a number here');
check(again.choices[0].message.content === first.choices[0].message.content, 'the seed gives the answer again');

try {
  await client.chat.completions.create({ model: 'gpt-4', messages });
  check(false, 'an unknown model is not found');
} catch (error) {
  check(error.status === 404, 'an unknown model is not found');
}
