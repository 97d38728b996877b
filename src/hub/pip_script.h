#pragma once

namespace fak::hub {

// A Python program for `python3 -c`: PART, then pip's own words. Runs the user's pip, which ends
// when whoever started it has gone (the other end of its stdin closes), and which goes on inside a
// wheel: pip itself begins a download anew. What comes of a wheel is kept in the file PART as well,
// with its address, length and ETag beside it in PART.json, until all of it has come; the next run
// asks for the rest with Range. Where a server has no strong ETag, address and length must do: pip
// checks the index's hash, and unpacking a wheel its members' checksums.
extern const char kPipScript[];

}  // namespace fak::hub
