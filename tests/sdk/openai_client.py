"""The openai Python SDK, unmodified: chat and completions, streamed and not, errors, cancel."""
import re
import sys
from pathlib import Path

import openai

base_url, key = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=120)
chat = [{"role": "user", "content": "Count from one to five."}]


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")
    print(f"ok: {what}")


models = client.models.list().data
check([each.id for each in models] == ["smollm2", "org/model"], "one model is listed, under both its names")
model = models[0].id

whole = client.chat.completions.create(
    model=model, messages=chat, max_tokens=24, temperature=0, logprobs=True, top_logprobs=2)
text = whole.choices[0].message.content
check(bool(text), "a chat is answered")
check(whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens, "usage adds up")
check(len(whole.choices[0].logprobs.content) == whole.usage.completion_tokens or
      whole.choices[0].finish_reason == "stop", "a log probability a token")
check(all(len(t.top_logprobs) == 2 for t in whole.choices[0].logprobs.content), "two alternatives a token")
check(whole._request_id is not None, "the answer has a request id")

pieces, finish, usage = [], [], None
for chunk in client.chat.completions.create(model=model, messages=chat, max_tokens=24, temperature=0,
                                            stream=True, stream_options={"include_usage": True}):
    if chunk.usage:
        usage = chunk.usage
    for choice in chunk.choices:
        pieces.append(choice.delta.content or "")
        if choice.finish_reason:
            finish.append(choice.finish_reason)
check("".join(pieces) == text, "the streamed text is the whole text")
check(len(finish) == 1 and finish[0] == whole.choices[0].finish_reason, "one finish reason")
check(usage is not None and usage.completion_tokens == whole.usage.completion_tokens, "usage in the stream")
check(usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1, "the prompt came from the cache")

many = client.chat.completions.create(model=model, messages=chat, max_tokens=8, n=3, seed=7)
again = client.chat.completions.create(model=model, messages=chat, max_tokens=8, n=3, seed=7)
check([c.message.content for c in many.choices] == [c.message.content for c in again.choices],
      "the same seed gives the same three answers")

check(client.models.retrieve("org/model").id == "org/model", "a model whose name has a slash is found")
stopped = client.completions.create(model=model, prompt="1, 2, 3, 4,", max_tokens=16, temperature=0, stop=[" 6"])
check(" 6" not in stopped.choices[0].text, "a stop string is no part of the text")
echoed = client.completions.create(model=model, prompt="Paris is", max_tokens=1, echo=True, logprobs=1, temperature=0)
check(echoed.choices[0].text.startswith("Paris is"), "the prompt is echoed")
check(echoed.choices[0].logprobs.token_logprobs[0] is None, "the first token has no log probability")

# The lines of README.md, but for the address and the key.
shown = (Path(__file__).resolve().parents[2] / "README.md").read_text()
lines = re.findall(r"^    >>> (.*)$", shown, re.M)
check(len(lines) == 2, "README.md shows two lines of Python")
typed = lines[0].replace("http://127.0.0.1:8000/v1", base_url).replace('"any"', repr(key))
names = {}
exec(f"{typed}\nanswer = {lines[1]}", names)
check(bool(names["answer"]), "they are answered")

for name, call, kind in [
    ("an unknown model is not found", lambda: client.chat.completions.create(model="gpt-4", messages=chat),
     openai.NotFoundError),
    ("a wrong temperature is refused", lambda: client.chat.completions.create(
        model=model, messages=chat, temperature=-1), openai.BadRequestError),
    ("tools are refused by name", lambda: client.chat.completions.create(
        model=model, messages=chat,
        tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]), openai.BadRequestError),
    ("a long prompt is refused with the numbers", lambda: client.completions.create(
        model=model, prompt="word " * 5000, max_tokens=1), openai.BadRequestError),
    ("a wrong key is refused", lambda: openai.OpenAI(
        base_url=base_url, api_key="wrong", max_retries=0).models.list(), openai.AuthenticationError),
]:
    try:
        call()
        sys.exit(f"failed: {name}: it was answered")
    except kind as error:
        check(bool(error.message), name)

stream = client.chat.completions.create(model=model, messages=chat, max_tokens=400, stream=True)
next(iter(stream))
stream.close()
after = client.chat.completions.create(model=model, messages=chat, max_tokens=4, temperature=0)
check(bool(after.choices), "the server goes on after a client left")
