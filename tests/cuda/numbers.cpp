// Numbers on the CUDA stand-in: each operator with a CUDA kernel gets one that runs the CPU's on the same bytes.
// Allocation, views, copies between devices, streams, events, autograd and autocast stay CUDA's own.
#include "numbers.h"
#include "standin.h"
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/copy_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

using namespace c10;
using at::Generator;
using at::Tensor;

thread_local Generator generator_now;

namespace {

/** A kernel's own surroundings: nothing above the backend's key. */
struct Below {
  impl::ExcludeDispatchKeyGuard autograd{autograd_dispatch_keyset_with_ADInplaceOrView};
  impl::ExcludeDispatchKeyGuard autocast{autocast_dispatch_keyset};
};

bool starts(const std::string &text, const char *with) { return text.rfind(with, 0) == 0; }
size_t bytes_of(const Tensor &t) {
  return t.numel() ? at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()) : 0;
}

// ---- tensors of the device as tensors of the host, on the same bytes

struct Twins {
  std::unordered_map<StorageImpl *, Storage> storages;
  std::unordered_map<StorageImpl *, StorageImpl *> originals;
  std::vector<std::pair<Tensor, Tensor>> tensors; // the twin, and the device's
  Device device{kCUDA, -1};
  bool zeros = false; // twins of the same shape, with bytes of their own

  Storage &storage(const Tensor &t) {
    StorageImpl *s = t.storage().unsafeGetStorageImpl();
    auto found = storages.find(s);
    if (found != storages.end()) return found->second;
    size_t bytes = s->sym_nbytes().expect_int();
    DataPtr at(standin_bytes(s->mutable_data()), Device(kCPU));
    Storage twin(Storage::use_byte_size_t{}, bytes, std::move(at), GetCPUAllocator(), true);
    originals[twin.unsafeGetStorageImpl()] = s;
    return storages.emplace(s, twin).first->second;
  }

  Tensor of(const Tensor &t) {
    if (!t.defined() || !t.is_cuda()) return t;
    for (auto &[twin, original] : tensors) if (original.is_same(t)) return twin;
    if (device.index() < 0) device = t.device();
    Tensor made;
    if (zeros) made = at::empty_strided(t.sizes(), t.strides(), t.options().device(kCPU)).zero_();
    else {
      made = at::detail::make_tensor<TensorImpl>(Storage(storage(t)), DispatchKeySet(DispatchKey::CPU), t.dtype());
      made.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
    }
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
    if (t.is_conj()) made._set_conj(true);
    if (t.is_neg()) made._set_neg(true);
    tensors.emplace_back(made, t);
    return made;
  }

  IValue of(const IValue &v) {
    if (v.isTensor()) return of(v.toTensor());
    if (v.isTensorList()) {
      List<Tensor> all;
      for (const Tensor &t : v.toTensorVector()) all.push_back(of(t));
      return all;
    }
    if (v.isOptionalTensorList()) {
      List<std::optional<Tensor>> all;
      for (const auto &t : v.toOptionalTensorVector()) all.push_back(t ? std::optional<Tensor>(of(*t)) : t);
      return all;
    }
    if (!v.isDevice() || !v.toDevice().is_cuda()) return v;
    if (device.index() < 0) device = Device(kCUDA, v.toDevice().has_index() ? v.toDevice().index() : cuda::current_device());
    return Device(kCPU);
  }

  /** The device's tensor that this result is, or is a view of. */
  std::optional<Tensor> original(const Tensor &result) {
    for (auto &[twin, t] : tensors) if (twin.is_same(result)) return t;
    if (zeros) return {};
    auto found = originals.find(result.storage().unsafeGetStorageImpl());
    if (found == originals.end()) return {};
    for (auto &[twin, t] : tensors) {
      if (t.storage().unsafeGetStorageImpl() == found->second) return at::as_strided(t, result.sizes(), result.strides(), result.storage_offset());
    }
    return {};
  }
};

// ---- random numbers: the CPU's generator, seeded as a run on the CPU seeds it

std::mutex drawing;
struct {
  uint64_t seed = 0, next = 0;
  Generator generator;
} drawn;
constexpr uint64_t DRAW = 4; // what each operator takes of the CUDA generator's offsets

/** From the start of a seed the CPU's own numbers; elsewhere those of a generator made of seed and offset. */
Generator generator_at(const at::PhiloxCudaState &p) {
  uint64_t seed = p.captured_ ? *(int64_t *)standin_bytes(p.seed_.ptr) : p.seed_.val;
  uint64_t offset = p.captured_ ? *(int64_t *)standin_bytes(p.offset_.ptr) + p.offset_intragraph_ : p.offset_.val;
  std::lock_guard<std::mutex> held(drawing);
  if (offset == 0) drawn.generator = at::detail::createCPUGenerator(seed & 0xffffffffu);
  else if (!drawn.generator.defined() || seed != drawn.seed || offset != drawn.next) {
    uint64_t mixed = (seed * 0x9e3779b97f4a7c15ull + offset) * 0xbf58476d1ce4e5b9ull;
    drawn.generator = at::detail::createCPUGenerator(mixed ^ (mixed >> 31));
  }
  drawn.seed = seed;
  drawn.next = offset + DRAW;
  return drawn.generator;
}

// ---- TF32: factors lose the last 13 bits of their mantissa

Tensor to_tf32(const Tensor &t) {
  if (!t.defined() || t.scalar_type() != kFloat) return t;
  Tensor bits = t.clone().view(at::kInt);
  return bits.add_(0x1000).bitwise_and_(~0x1fff).view(at::kFloat);
}
struct Factors {
  const char *name;
  int first, second;
  bool of_cudnn;
};
constexpr Factors FACTORS[] = {{"aten::mm", 0, 1, false}, {"aten::bmm", 0, 1, false}, {"aten::addmm", 1, 2, false},
                               {"aten::baddbmm", 1, 2, false}, {"aten::_addmm_activation", 1, 2, false},
                               {"aten::convolution", 0, 1, true}};
// Backward of a convolution multiplies grad with input and with weight.
constexpr Factors BACKWARD = {"aten::convolution_backward", 0, 1, true};

// ---- one operator

struct Late { // a call, kept until its stream comes to it, or for a graph's replays
  std::string name;
  OperatorHandle op;
  Run run;
  Stack stack;
  std::vector<Tensor> outs;
  bool random, again;
  int generator;
  at::PhiloxCudaState philox;
};

void collect(const Stack &stack, std::vector<Tensor> &flat) { // tensors of results, lists opened
  for (const IValue &v : stack) {
    if (v.isTensor()) flat.push_back(v.toTensor());
    else if (v.isTensorList()) for (const Tensor &t : v.toTensorVector()) flat.push_back(t);
    else flat.push_back(Tensor());
  }
}

void run_late(void *data) {
  Late *l = (Late *)data;
  try {
    NoGradGuard none;
    Below below;
    Stack stack = l->stack;
    if (l->random) {
      generator_now = generator_at(l->philox);
      if (l->generator >= 0) stack[l->generator] = generator_now;
    }
    l->run(l->op, stack);
    std::vector<Tensor> results;
    collect(stack, results);
    for (size_t i = 0; i < results.size() && i < l->outs.size(); i++) {
      if (!l->outs[i].defined()) continue;
      TORCH_CHECK(results[i].sizes() == l->outs[i].sizes(), "its result has another shape than was foreseen");
      l->outs[i].copy_(results[i]);
    }
  } catch (const std::exception &e) {
    standin_violation("%s, run late: %s", l->name.c_str(), e.what());
  }
  if (!l->again) delete l;
}

struct Kernel final : OperatorKernel {
  std::string name;
  Run run;
  bool waits = false;  // its result's shape depends on values
  bool mixes = false;  // it takes tensors of the host, too
  bool indexes = false; // with a mask it waits
  bool random = false;
  int generator = -1;
  const Factors *factors = nullptr;

  void operator()(const OperatorHandle &op, DispatchKeySet, Stack *stack) {
    const auto &arguments = op.schema().arguments();
    size_t base = stack->size() - arguments.size();
    Stack given(std::make_move_iterator(stack->begin() + base), std::make_move_iterator(stack->end()));
    stack->resize(base);
    NoGradGuard none;
    Below below;
    Twins twins;
    Stack mine;
    for (const IValue &v : given) mine.push_back(twins.of(v));
    if (twins.device.index() < 0) twins.device = Device(kCUDA, cuda::current_device());
    OptionalDeviceGuard guard(twins.device);
    check_places(op, given, twins);
    auto stream = cuda::getCurrentCUDAStream(twins.device.index());
    C10_CUDA_CHECK((cudaError_t)standin_operator(name.c_str(), stream.stream()));
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
    bool capturing = status == cudaStreamCaptureStatusActive, wait = waits;
    if (indexes) for (auto &[twin, t] : twins.tensors) wait |= t.scalar_type() == kBool || t.scalar_type() == kByte;
    at::PhiloxCudaState philox;
    if (random) philox = draw(given, twins.device);
    touch(op, given, stream);
    if (wait && (standin_is_late() || capturing)) C10_CUDA_CHECK(cudaStreamSynchronize(stream));
    Run now = chosen(given);
    if (capturing || (standin_is_late() && !wait)) return queue(op, now, *stack, given, twins, stream, capturing, philox);
    if (random) {
      generator_now = generator_at(philox);
      if (generator >= 0) mine[generator] = generator_now;
    }
    now(op, mine);
    std::vector<Tensor> outs;
    settle(mine, twins, *stack, outs);
    for (const Tensor &t : outs) if (t.defined()) touched(t, true, stream);
  }

  /** As CUDA's kernels refuse: twins would hide it. */
  void check_places(const OperatorHandle &op, const Stack &given, const Twins &twins) {
    if (mixes) return;
    for (size_t i = 0; i < given.size(); i++) {
      if (!given[i].isTensor() || op.schema().arguments()[i].name() == "scalars") continue;
      const Tensor &t = given[i].toTensor();
      TORCH_CHECK(!t.defined() || !t.is_cpu() || t.dim() == 0, "Expected all tensors to be on the same device, but found at least two devices, ", twins.device, " and cpu! (in ", name, ")");
    }
    for (auto &[twin, t] : twins.tensors) TORCH_CHECK(t.device() == twins.device, "Expected all tensors to be on the same device, but found ", t.device(), " and ", twins.device, " (in ", name, ")");
  }

  at::PhiloxCudaState draw(const Stack &given, Device device) {
    Generator g = generator >= 0 && given[generator].isGenerator() ? given[generator].toGenerator() : at::cuda::detail::getDefaultCUDAGenerator(device.index());
    std::lock_guard<std::mutex> held(g.mutex());
    return at::check_generator<at::CUDAGeneratorImpl>(g)->philox_cuda_state(DRAW);
  }

  void touched(const Tensor &t, bool writes, const cuda::CUDAStream &stream) {
    if (t.defined() && t.is_cuda()) standin_access(stream.stream(), t.data_ptr(), bytes_of(t), writes, name.c_str(), 0);
  }
  /** What it reads and writes, by its schema. */
  void touch(const OperatorHandle &op, const Stack &given, const cuda::CUDAStream &stream) {
    standin_access(stream.stream(), nullptr, 0, 0, name.c_str(), 1);
    for (size_t i = 0; i < given.size(); i++) {
      const auto *alias = op.schema().arguments()[i].alias_info();
      bool writes = alias && alias->isWrite();
      if (given[i].isTensor()) touched(given[i].toTensor(), writes, stream);
      else if (given[i].isTensorList()) for (const Tensor &t : given[i].toTensorVector()) touched(t, writes, stream);
      else if (given[i].isOptionalTensorList()) for (const auto &t : given[i].toOptionalTensorVector()) if (t) touched(*t, writes, stream);
    }
  }

  /** With TF32's rounding where it is allowed; in fp16 with sums in fp32, as a GPU has them, and as the CPU is quick. */
  Run chosen(const Stack &given) const {
    if (!factors) return run;
    if (given[factors->second].toTensor().scalar_type() == at::kHalf) return [run = run](const OperatorHandle &op, Stack &s) { in_fp32(run, op, s); };
    if (!(factors->of_cudnn ? at::globalContext().allowTF32CuDNN() : at::globalContext().allowTF32CuBLAS())) return run;
    return [run = run, f = *factors](const OperatorHandle &op, Stack &s) {
      s[f.first] = to_tf32(s[f.first].toTensor());
      s[f.second] = to_tf32(s[f.second].toTensor());
      if (f.name == BACKWARD.name) s[2] = to_tf32(s[2].toTensor());
      run(op, s);
    };
  }
  static void in_fp32(const Run &run, const OperatorHandle &op, Stack &s) {
    for (IValue &v : s) if (v.isTensor() && v.toTensor().defined()) v = v.toTensor().to(at::kFloat);
    run(op, s);
    for (IValue &v : s) if (v.isTensor() && v.toTensor().defined()) v = v.toTensor().to(at::kHalf);
  }

  /** Results of the host become the device's. `outs` gets those that were made: null for given tensors and their views. */
  void settle(Stack &got, Twins &twins, Stack &stack, std::vector<Tensor> &outs) {
    for (auto &[twin, t] : twins.tensors) { // written to and resized
      bool same_bytes = twins.zeros || twin.data_ptr() == standin_bytes(t.data_ptr());
      if (twin.sizes() == t.sizes() && twin.strides() == t.strides() && same_bytes) continue;
      if (twin.sizes() != t.sizes()) t.resize_(twin.sizes());
      if (twin.strides() != t.strides()) t.unsafeGetTensorImpl()->set_sizes_and_strides(twin.sizes(), twin.strides());
      if (!twins.zeros) put(t, twin);
    }
    auto settled = [&](const Tensor &result) {
      std::optional<Tensor> given = result.defined() ? twins.original(result) : result;
      outs.push_back(Tensor());
      if (given) return *given;
      Tensor made = at::empty_strided(result.sizes(), result.strides(), result.options().device(twins.device));
      if (!twins.zeros) put(made, result);
      return outs.back() = made;
    };
    for (IValue &v : got) {
      if (v.isTensor()) stack.emplace_back(settled(v.toTensor()));
      else if (v.isTensorList()) {
        List<Tensor> all;
        for (const Tensor &t : v.toTensorVector()) all.push_back(settled(t));
        stack.emplace_back(all);
      } else {
        outs.push_back(Tensor());
        stack.push_back(v);
      }
    }
  }
  static void put(const Tensor &to, const Tensor &from) {
    if (size_t bytes = bytes_of(from)) memcpy(standin_bytes(to.data_ptr()), from.data_ptr(), bytes);
  }

  /** Shapes come from a trial on zeros; the stream computes the values. */
  void queue(const OperatorHandle &op, const Run &now, Stack &stack, const Stack &given, const Twins &here,
             const cuda::CUDAStream &stream, bool capturing, const at::PhiloxCudaState &philox) {
    Twins zeros;
    zeros.zeros = true;
    zeros.device = here.device;
    Stack trial;
    for (const IValue &v : given) trial.push_back(zeros.of(v));
    if (random) {
      generator_now = at::detail::createCPUGenerator(1);
      if (generator >= 0) trial[generator] = generator_now;
    }
    now(op, trial);
    std::vector<Tensor> outs;
    settle(trial, zeros, stack, outs);
    Late *l = new Late{name, op, now, {}, {}, random, capturing, generator, philox};
    Twins twins; // made when given tensors have their new size
    for (const IValue &v : given) {
      IValue own = twins.of(v);
      bool of_host = v.isTensor() && v.toTensor().defined() && v.toTensor().is_cpu();
      l->stack.push_back(of_host ? IValue(v.toTensor().clone()) : own);
    }
    for (const Tensor &t : outs) {
      Twins own;
      l->outs.push_back(own.of(t));
      touched(t, true, stream);
    }
    standin_host_work(name.c_str(), (void *)stream.stream(), run_late, l);
  }
};

/** Between devices, and of plain bytes, a copy goes CUDA's own way; else it is a kernel's. */
struct Copy final : OperatorKernel {
  Kernel kernel;
  void operator()(const OperatorHandle &op, DispatchKeySet keys, Stack *stack) {
    Tensor to = (*stack)[stack->size() - 3].toTensor(), from = (*stack)[stack->size() - 2].toTensor();
    bool plain = to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() && to.strides() == from.strides() &&
                 to.is_non_overlapping_and_dense() && to.is_neg() == from.is_neg() && to.is_conj() == from.is_conj();
    if (to.is_cuda() && from.is_cuda() && to.device() == from.device() && !plain) return kernel(op, keys, stack);
    bool non_blocking = stack->back().toBool();
    Below below;
    at::native::copy_(to, from, non_blocking);
    torch::jit::drop(*stack, 3);
    stack->emplace_back(to);
  }
};

/** In place of what the CPU can't compute. */
struct Missing final : OperatorKernel {
  std::string name;
  void operator()(const OperatorHandle &, DispatchKeySet, Stack *) {
    TORCH_CHECK(false, "the CUDA stand-in has no numbers for ", name, ": the CPU has no such kernel");
  }
};

// ---- all operators

using Names = std::set<std::string>;
const Names OWN = {"aten::_local_scalar_dense", "aten::record_stream", "aten::_pin_memory", "aten::is_pinned", "aten::_fused_sdp_choice",
                   "aten::is_set_to", "aten::resize_", "aten::_reshape_alias", "aten::as_strided", "aten::view", "aten::unfold",
                   "aten::_cudnn_init_dropout_state", "aten::_resize_output_"};
const Names WAITING = {"aten::nonzero", "aten::masked_select", "aten::_unique", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive",
                       "aten::unique_dim_consecutive", "aten::equal", "aten::bincount", "aten::repeat_interleave", "aten::histc"};
const Names MIXING = {"aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index", "aten::_foreach_copy_", "aten::copy_"};
const Names DRAWING = {"aten::native_dropout", "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_efficient_attention"};

bool stays_cudas(const OperatorName &n, const FunctionSchema &schema) {
  for (const auto &result : schema.returns()) if (result.alias_info() && !result.alias_info()->isWrite()) return true; // a view
  return OWN.count(n.name) || starts(n.name, "aten::empty") || starts(n.name, "aten::set_") || starts(n.name, "aten::_nested") ||
         n.name.find("sparse") != std::string::npos;
}

Kernel kernel_of(const OperatorName &n, const FunctionSchema &schema, const Run &run) {
  Kernel k;
  k.name = n.name + (n.overload_name.empty() ? "" : "." + n.overload_name);
  k.run = run;
  k.waits = WAITING.count(n.name);
  k.mixes = MIXING.count(n.name);
  k.indexes = starts(n.name, "aten::index") || starts(n.name, "aten::_index") || starts(n.name, "aten::_unsafe_index");
  for (size_t i = 0; i < schema.arguments().size(); i++) {
    if (schema.arguments()[i].type()->str().find("Generator") != std::string::npos) k.generator = i;
  }
  k.random = k.generator >= 0 || DRAWING.count(n.name);
  for (const Factors &f : FACTORS) if (n.name == f.name && n.overload_name.empty()) k.factors = &f;
  if (n.name == BACKWARD.name && n.overload_name.empty()) k.factors = &BACKWARD;
  return k;
}

void on_cpu(const OperatorHandle &op, Stack &s) { op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &s); }

struct Silence : WarningHandler {
  void process(const Warning &) override {}
};

struct Registered {
  int computed = 0, missing = 0, own = 0;
  std::vector<RegistrationHandleRAII> kept;

  Registered() {
    Silence silence;
    WarningUtils::WarningHandlerGuard quiet(&silence); // each kernel is registered over another
    auto fused = written_out();
    for (const OperatorName &n : Dispatcher::singleton().getAllOpNames()) {
      if (starts(n.name, "aten::")) take(n, fused);
    }
    standin_count("operators", "computed", computed);
    standin_count("operators", "missing", missing);
    standin_count("operators", "CUDA's own", own);
  }

  void take(const OperatorName &n, const std::unordered_map<std::string, Run> &fused) {
    auto op = Dispatcher::singleton().findSchema(n);
    bool above = n.name == "aten::convolution" || n.name == "aten::copy_"; // taken before CUDA's kernels are chosen
    if (!op || !(above || op->hasKernelForDispatchKey(DispatchKey::CUDA))) return;
    if (stays_cudas(n, op->schema())) {
      own++;
      return;
    }
    auto written = fused.find(n.overload_name.empty() ? n.name : n.name + "." + n.overload_name);
    if (written == fused.end() && !op->hasComputedKernelForDispatchKey(DispatchKey::CPU)) {
      auto none = std::make_unique<Missing>();
      none->name = n.name;
      missing++;
      return add(n, KernelFunction::makeFromBoxedFunctor(std::move(none)));
    }
    computed++;
    Kernel kernel = kernel_of(n, op->schema(), written == fused.end() ? Run(on_cpu) : written->second);
    if (n.name == "aten::copy_") {
      auto copy = std::make_unique<Copy>();
      copy->kernel = std::move(kernel);
      return add(n, KernelFunction::makeFromBoxedFunctor(std::move(copy)));
    }
    add(n, KernelFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(std::move(kernel))));
  }

  void add(const OperatorName &n, KernelFunction kernel) {
    kept.push_back(Dispatcher::singleton().registerImpl(n, DispatchKey::CUDA, std::move(kernel), std::nullopt, nullptr, "numbers of the CUDA stand-in"));
  }
};
// It is never taken down: libtorch's own end comes in any order.
auto *registered = new Registered;

} // namespace
