// Shared by the two sources of `numbers`.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <functional>
#include <string>
#include <unordered_map>

using Stack = torch::jit::Stack;
/** Runs an operator on tensors of the host: takes its arguments from the stack, and puts its results there. */
using Run = std::function<void(const c10::OperatorHandle &, Stack &)>;

/** The generator of the operator that runs now, for those that take none as an argument. */
extern thread_local at::Generator generator_now;

/** CUDA's operators that the CPU has under another name, or not at all. */
std::unordered_map<std::string, Run> written_out();
