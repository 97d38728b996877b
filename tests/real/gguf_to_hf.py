#!/usr/bin/env python3
"""Makes a Hugging Face folder of a GGUF file, for engines that read only those: gguf_to_hf.py MODEL.gguf FOLDER

Needs torch, transformers, gguf and accelerate. Weights become bfloat16, and stay as rough as the file has them.
"""

import os
import shutil
import sys
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TQDM_DISABLE": "1"}

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: E402


def main():
    source, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    # Packed weights, which it would keep otherwise, can't be saved.
    model = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True)).to(torch.bfloat16)
    for left_over in ("hf_quantizer", "quantization_method"):
        if hasattr(model, left_over):
            delattr(model, left_over)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    for config in (model.config, model.generation_config):
        config.bos_token_id, config.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id
    # Whole or not at all.
    half = folder.with_name(folder.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    model.save_pretrained(half)
    tokenizer.save_pretrained(half)
    half.rename(folder)


main()
