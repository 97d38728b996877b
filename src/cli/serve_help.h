#pragma once

namespace fak::cli {

// Below the flags of `fak serve --help`.
inline constexpr char kServeFooter[] =
    "Examples:\n"
    "  fak serve                                  the default model on 127.0.0.1:8000\n"
    "  fak serve smollm2 --port 9000 --api-key secret --host 0.0.0.0\n"
    "  fak serve --upstream http://127.0.0.1:8001  in front of vLLM, llama.cpp or another fak\n"
    "  fak serve --upstream a=vllm+http://10.0.0.5:8000 --upstream b=http://10.0.0.6:8080\n"
    "With several upstreams --routing-policy chooses among those that are healthy and list the\n"
    "request's model; where one fails before its first token another one takes over. fak fleet\n"
    "status shows them. FAK_UPSTREAM has them with commas.\n"
    "A file may name them instead (fak serve --config fleet.toml), each in a table:\n"
    "  [[replica]]\n"
    "  name = \"a\"                                      default: the URL's host and port\n"
    "  engine = \"vllm\"                                 default: auto\n"
    "  url = \"http://10.0.0.5:8000\"\n"
    "  api-key-file = \"/etc/fak/a.key\"                where it asks for a key\n"
    "Further keys: model, weight, max-concurrency, metrics-urls, kv-events, data-parallel-rank,\n"
    "allow-fields, allow-headers, generation-probe-interval, -timeout; engine = \"native\" "
    "serves\nthat model here. A name of your own, shares of several models, and who stands in "
    "where nobody\ncan take a request:\n"
    "  [[model]]\n"
    "  name = \"gpt-4\"\n"
    "  to = [{ model = \"qwen-72b\", weight = 95 }, { model = \"qwen-next\", weight = 5 }]\n"
    "  fallback = [\"qwen-7b\"]\n"
    "Both are read again when the file changes, and on SIGHUP.\n"
    "It also answers /health, /ready, /metrics and /openapi.json, which lists all of them.\n"
    "A keys file has a table for each key; the hash is that of printf %s KEY | sha256sum:\n"
    "  [[key]]\n"
    "  name = \"alice\"\n"
    "  hash = \"sha256:2bb80d53...\"                     64 hex digits\n"
    "  weight = 2.0                                    her share (default: 1.0)\n"
    "  max-concurrency = 8                             open at once (default: as many as come)\n"
    "  max-streams = 4                                 of these, streamed\n"
    "  requests-per-minute = 60\n"
    "  tokens-per-minute = 100000                      of prompts and answers\n"
    "  admin = true                                    may call /v1/fak/... (default: false)";

}  // namespace fak::cli
