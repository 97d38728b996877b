#pragma once

#include <span>

#include "cli/verb.h"

namespace fak::cli {

// In the order of `fak --help`.
std::span<const Verb> Verbs();

std::function<ExitStatus()> AddServe(Program& program);
std::function<ExitStatus()> AddProbe(Program& program);
std::function<ExitStatus()> AddFleet(Program& program);
std::function<ExitStatus()> AddRun(Program& program);
std::function<ExitStatus()> AddPull(Program& program);
std::function<ExitStatus()> AddList(Program& program);
std::function<ExitStatus()> AddRm(Program& program);
std::function<ExitStatus()> AddInspect(Program& program);
std::function<ExitStatus()> AddTokenize(Program& program);
std::function<ExitStatus()> AddPerplexity(Program& program);
std::function<ExitStatus()> AddVerify(Program& program);
std::function<ExitStatus()> AddBench(Program& program);
std::function<ExitStatus()> AddCapabilities(Program& program);

}  // namespace fak::cli
