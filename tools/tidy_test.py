#!/usr/bin/env python3
"""Every check of tidy.py finds what it is for, and leaves the lawful twin alone."""

import tempfile
import unittest
from pathlib import Path

import tidy

# A small project with no finding.
CLEAN = {
    "src/CMakeLists.txt": "foreach(room\n    base\n    wire net)\n  add_subdirectory(${room})\nendforeach()\n",
    "src/base/CMakeLists.txt": "fak_room(base LINKS fmt::fmt)\n",
    "src/base/README.md": "Owns bytes. `limits.h`\n",
    "src/base/limits.h": "#pragma once\ninline constexpr int kDepthMax = 64 * 1024;\n",
    "src/base/use.cc": '#include "base/limits.h"\nint Depth() { return kDepthMax; }\n',
    "src/wire/CMakeLists.txt": "fak_room(wire USES base TEST_USES net)\n",
    "src/wire/README.md": "Owns the wire.\n",
    "src/net/CMakeLists.txt": "# the sockets\nfak_room(net HEAVY USES base\n  wire LINKS Boost::headers)\n",
    "src/net/README.md": "Owns sockets.\n",
    "docs/limits.md": "| constant | value | error |\n|---|---|---|\n| `kDepthMax` | 64 KiB | too deep |\n",
}


def long_function(head, lines):
    return head + " {\n" + "  Call();\n" * (lines - 2) + "}\n"


class TidyTest(unittest.TestCase):
    def findings(self, files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**CLEAN, **files}.items():
                path = Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return [f"{path}:{line}: {what}" for path, line, what in tidy.check(root)]

    def assert_found(self, files, *starts):
        found = self.findings(files)
        self.assertEqual(len(found), len(starts), found)
        for row, start in zip(found, starts):
            self.assertTrue(row.startswith(start), row)

    def test_clean_tree_has_no_finding(self):
        self.assert_found({})

    def test_includes_follow_the_rooms(self):
        self.assert_found({"src/wire/a.cc": '#include "wire/a.h"\n#include "base/b.h"\n#include "net/c.h"\n'},
                          "src/wire/a.cc:3: room wire does not name net")
        self.assert_found({"src/wire/a_test.cc": '#include "net/c.h"\n#include "tests/a.h"\n',
                           "tests/a.h": "#pragma once\n"})
        self.assert_found({"src/wire/test_support.h": '#pragma once\n#include "net/c.h"\n'})
        self.assert_found({"src/wire/a.cc": '#include "a.h"\n'}, 'src/wire/a.cc:1: "a.h": write')
        self.assert_found({"src/wire/a.cc": '// #include "net/c.h"\n'})
        self.assert_found({"src/base/CMakeLists.txt": "fak_room(base USES net)\n"},
                          "src/base/CMakeLists.txt:1: base may not use net")

    def test_libraries_stay_in_their_room(self):
        self.assert_found({"src/wire/a.cc": "#include <boost/asio.hpp>\n"}, "src/wire/a.cc:1: <boost/asio.hpp>")
        self.assert_found({"src/net/a.cc": "#include <boost/asio.hpp>\n"})

    def test_sizes(self):
        self.assert_found({"src/wire/a.cc": "\n" * 701}, "src/wire/a.cc:701: 701 lines")
        self.assert_found({"src/wire/a.cc": "\n" * 700})

    def test_long_functions_of_every_shape(self):
        for head in ("int F(int a)", "template <class T>\nvoid A<T>::F() const noexcept", "A::A(int b) : b_{b}, c_(1)",
                     "A::A(int b) : b_{b}", "struct stat F(int a)", "auto F() -> std::vector<int>",
                     'extern "C" int F(const char* a = "{")'):
            with self.subTest(head=head):
                text = "namespace fak::wire {\n" + long_function(head, 71) + "}  // namespace fak::wire\n"
                found = self.findings({"src/wire/a.cc": text})
                self.assertEqual(len(found), 1, found)
                self.assertIn("function of 71 lines", found[0])
                self.assert_found({"src/wire/a.cc": text.replace("  Call();\n", "", 1)})
                self.assert_found({"src/wire/a.cc": text.replace("Call();", "Call();  // tidy: table", 1)})

    def test_classes_and_tables_may_be_long(self):
        self.assert_found({"src/wire/a.cc": "class A : public B {\n public:\n" + "  int F() { return 1; }\n" * 80 + "};\n"})
        self.assert_found({"src/wire/a.cc": "constexpr int kTable[] = {\n" + "  1,\n" * 80 + "};\n"})
        inside = "class A {\n public:\n" + long_function("  template <class T>\n  void F(T a) const", 75) + "};\n"
        self.assert_found({"src/wire/a.cc": inside}, "src/wire/a.cc:4: function of 75 lines")

    def test_banned_calls(self):
        for line, name in (("sprintf(a, b);", "sprintf"), ("strtok(a, b);", "strtok"), ("int a = rand();", "rand"),
                           ("std::regex a;", "regex"), ("a << std::endl;", "endl"), ("co_await a;", "coroutine"),
                           ("A* a = new A();", "new"), ("delete a;", "delete"), ("std::async(f);", "async"),
                           ("std::this_thread::sleep_for(a);", "sleep_for"), ("throw a;", "throw"),
                           ("dynamic_cast<A*>(b);", "dynamic_cast")):
            with self.subTest(line=line):
                self.assert_found({"src/wire/a.cc": line + "\n"}, f"src/wire/a.cc:1: {name}:")
                self.assert_found({"src/wire/a.cc": f"// {line}\n"})
                self.assert_found({"src/wire/a.cc": f"const char* a = R\"({line})\";\n"})
                self.assert_found({"src/wire/a.cc": f"// tidy: allow {name}: a reason\n{line}\n"})
        self.assert_found({"src/wire/a.cc": "snprintf(a, 1, b);\nA(const A&) = delete;\n::new (p) A;\nint operand(int);\n"})
        self.assert_found({"src/wire/a.cc": "std::unique_ptr<A> a(f(new A));\nreturn std::unique_ptr<A>(\n    new A);\nstd::unique_ptr<A> a(new A);\n"},
                          "src/wire/a.cc:1: new:")
        self.assert_found({"src/wire/a_test.cc": "A* a = new A();\nthrow a;\n"})

    def test_words(self):
        self.assert_found({"tools/a.sh": "cd /wor" + "k/x\n"}, "tools/a.sh:1: a path of someone's machine")
        self.assert_found({"docs/a.md": "see ../share" + "d/x\n"}, "docs/a.md:1: a path of someone's machine")
        self.assert_found({"docs/a.md": "https://a.example/wor" + "k/x and network/roo" + "t/x\n"})
        self.assert_found({"src/wire/a.h": "#pragma once\n// TOD" + "O: more\n"}, "src/wire/a.h:2: open end")
        self.assert_found({"src/wire/a.h": "#pragma once\n// TOD" + "O(#12): more\n"})
        self.assert_found({"cmake/a.cmake": "-march=nativ" + "e\n"}, "cmake/a.cmake:1: flag")

    def test_headers_and_rooms(self):
        self.assert_found({"src/wire/a.h": "int a;\n"}, "src/wire/a.h:1: no #pragma once")
        self.assert_found({"src/wire/README.md": "`gone.h`\n"}, "src/wire/README.md:1: gone.h does not exist")
        self.assert_found({"src/CMakeLists.txt": CLEAN["src/CMakeLists.txt"].replace("net)", "net kv)")},
                          "src/kv/CMakeLists.txt:1: no fak_room(kv")

    def test_links(self):
        page = "# A title\n\n[a](limits.md) [b](gone.md) [c](#a-title) [d](#none) [e](https://x/y)\n"
        self.assert_found({"docs/a.md": page}, "docs/a.md:3: dead link: gone.md", "docs/a.md:3: dead link: no heading #none")
        self.assert_found({"docs/a.md": "```\n[b](gone.md)\n```\n"})
        self.assert_found({"src/wire/a.cc": "// see docs/gone.md\n"}, "src/wire/a.cc:1: docs/gone.md does not exist")

    def test_limits_and_their_page_agree(self):
        page = CLEAN["docs/limits.md"]
        self.assert_found({"docs/limits.md": page.replace("64 KiB", "65,536")})
        self.assert_found({"docs/limits.md": page.replace("64 KiB", "65 KiB")}, "docs/limits.md:3: kDepthMax is")
        self.assert_found({"docs/limits.md": page + "| `kOther` | 1 | none |\n"}, "docs/limits.md:4: kOther is not in")
        self.assert_found({"docs/limits.md": "no table\n"}, "src/base/limits.h:2: kDepthMax is not in")
        self.assert_found({"src/base/use.cc": ""}, "src/base/limits.h:2: kDepthMax bounds nothing")


if __name__ == "__main__":
    unittest.main()
