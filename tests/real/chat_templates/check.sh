#!/usr/bin/env bash
# Real chat templates, some 70 of them, against Python's jinja2:
#
#   check.sh TEXT_TEST WORK
#
# TEXT_TEST is the program text_test, WORK a folder for what is downloaded: npm's node-llama-cpp, which
# carries llama.cpp's source with the templates. Needs python3-jinja2. Exit 1 on any difference.
set -euo pipefail
text_test=$(realpath "$1")
mkdir -p "$2"
work=$(realpath "$2")
cd "$(dirname "$0")/../../.."
package=node-llama-cpp@3.22.1

if [ ! -d "$work/templates" ]; then
  archive=$(cd "$work" && npm pack --silent "$package")
  tar -xzf "$work/$archive" -C "$work" package/llama/gitRelease.bundle
  rm -rf "$work/source"
  git clone --quiet "$work/package/llama/gitRelease.bundle" "$work/source" 2>/dev/null
  mkdir "$work/templates"
  cp "$work"/source/models/templates/*.jinja "$work/templates/"
  rm -rf "$work/source" "$work/package" "${work:?}/$archive"
fi
rm -rf "$work/goldens"
mkdir "$work/goldens"
tools/make-chat-template-goldens --templates "$work/templates" --out "$work/goldens"
FAK_CHAT_TEMPLATE_GOLDENS=$work/goldens "$text_test" --gtest_brief=1 \
  --gtest_filter='Files/ChatTemplateGolden.*'
echo "$(find "$work/templates" -name '*.jinja' | wc -l) templates rendered as jinja2 renders them"
